"""Classes, of which some stand for functions."""


class Plain:
    """Its objects cannot be called."""


class Tokenizer:
    def __init__(self, model: str, lower: bool = False) -> None:
        self.model = model

    def __call__(self, text: str) -> str:
        return text


class Broken:
    def __init__(self) -> None:
        self.start()

    def start(self):
        raise RuntimeError("there is no GPU")

    def __call__(self, text: str) -> str:
        return text


def shout(text):
    return text.upper()
