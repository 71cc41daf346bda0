from nowhere import something

__all__ = ["something"]
