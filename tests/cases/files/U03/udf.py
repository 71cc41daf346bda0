def to_int(s):
    return {"field": int(s)}
