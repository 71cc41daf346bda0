def hog(a):
    b = bytearray(4 << 30) if a == 2 else b""
    for i in range(0, len(b), 4096):
        b[i] = 1
    return len(b)
