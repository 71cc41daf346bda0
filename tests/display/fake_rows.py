"""A result made of Python rows, for the tests of what reads one."""

from itertools import islice


class Rows:
    """`text_rows` and `json_rows` give the next rows, as a session's result does."""

    def __init__(self, names, types, rows, json_rows=()):
        self.names, self.types = names, types
        self._rows, self._json = iter(rows), iter(json_rows)
        self.read = 0

    def text_rows(self, limit):
        chunk = list(islice(self._rows, limit))
        self.read += len(chunk)
        return chunk

    def json_rows(self, limit):
        return list(islice(self._json, limit))
