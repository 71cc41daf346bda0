"""Formats of a user's own that fail."""

import zql


@zql.format("torn")
class Torn:
    def read(self, path, *, least: int = 0):
        yield {"n": least}
        raise ValueError("block 2 is torn")

    def write(self, rows, path):
        for row in rows:
            raise OverflowError(f"no room for {row}")


@zql.format("typed")
def read_typed(path):
    for number in range(200):
        yield {"n": number if number < 150 else "many"}


@zql.format("sink")
class Sink:
    def write(self, rows, path):
        """Takes all."""


@zql.format("wide")
def read_wide(path, *, width: int):
    yield {"width": width}


@zql.format("full")
class Full:
    def read(self, path):
        yield {"n": 1}

    def write(self, rows, path):
        for row in rows:
            raise OverflowError(f"no room for {row}")
