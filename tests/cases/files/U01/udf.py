import threading

_l = threading.Lock()


def make():
    lock = threading.Lock()

    def locked(a):
        with lock:
            return a + 1

    return locked


locked = make()
