"""What the module tags.zql needs of Python."""


def clean(text: str) -> str:
    return text.strip().lower()


class Tagger:
    def __init__(self, mark: str) -> None:
        self.mark = mark

    def __call__(self, row: dict):
        return {"tag": f"{self.mark}{row['s']}"}
