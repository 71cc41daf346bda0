def boom(a):
    if a == 7:
        raise ValueError("seven is bad")
    return a * 2
