def nonempty(s):
    return s or None
