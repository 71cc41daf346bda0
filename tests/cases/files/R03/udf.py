import os


def die_once(a):
    m = os.path.join(os.environ["ZQL_TEST_DIR"], "died")
    if a == 2 and not os.path.exists(m):
        open(m, "w").close()
        os._exit(9)
    return a
