"""Python functions that stand in a pipeline's way and change nothing."""


def same(value):
    return value


def whole(value: int | None) -> int | None:
    return value
