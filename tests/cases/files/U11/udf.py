class Odd(Exception):
    def __init__(self, a, b):
        super().__init__("two things %s %s" % (a, b))


def f(a):
    raise Odd(a, a)
