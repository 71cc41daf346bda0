import time


def slow(a):
    time.sleep(3)
    return a
