"""A Python function that stands in a pipeline's way and changes nothing."""


def same(value):
    return value
