def maybe(a):
    return {"x": a} if a % 2 == 0 else None
