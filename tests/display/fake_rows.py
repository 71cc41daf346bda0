"""A result made of Python rows, for the tests of what reads one as text."""

from itertools import islice


class Rows:
    """`text_rows` gives the next rows, as a session's result does."""

    def __init__(self, names, types, rows):
        self.names, self.types = names, types
        self._rows = iter(rows)
        self.read = 0

    def text_rows(self, limit):
        chunk = list(islice(self._rows, limit))
        self.read += len(chunk)
        return chunk
