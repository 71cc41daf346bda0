"""Thrift's compact protocol, as far as a Parquet footer needs it, without knowing any schema.

A struct is a dict from field number to `(type, value)` in the order of the bytes; a list is a
`ThriftList`. What is read and written again gives the same bytes.
"""

from __future__ import annotations

import struct
from typing import Any

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_MORE = 0x80  # of a varint: another byte follows
_SHORT = 15  # sizes and steps up to here share a byte with a type
Struct = dict[int, tuple[int, Any]]


class ThriftList(list[Any]):
    """A list with the type of its elements."""

    def __init__(self, kind: int, items: list[Any]) -> None:
        super().__init__(items)
        self.kind = kind


class Reader:
    """Reads values from bytes; raises IndexError or ValueError when they are no Thrift."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < _MORE:
                return value
            shift += 7

    def _signed(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def struct(self) -> Struct:
        """A struct."""
        found: Struct = {}
        last = 0
        while head := self._byte():
            kind, step = head & 0x0F, head >> 4
            last = last + step if step else self._signed()
            value = kind == TRUE if kind in {TRUE, FALSE} else self.value(kind)
            found[last] = (kind, value)
        return found

    def value(self, kind: int) -> Any:
        """A value of a type; booleans here are elements of lists."""
        if kind in {TRUE, FALSE, BYTE}:
            return self._byte()
        if kind in {I16, I32, I64}:
            return self._signed()
        if kind == DOUBLE:
            self._at += 8
            return struct.unpack_from("<d", self._data, self._at - 8)[0]
        if kind == BINARY:
            size = self._varint()
            self._at += size
            return self._data[self._at - size : self._at]
        if kind in {LIST, SET}:
            head = self._byte()
            size = self._varint() if head >> 4 == _SHORT else head >> 4
            inner = head & 0x0F
            return ThriftList(inner, [self.value(inner) for _ in range(size)])
        if kind == STRUCT:
            return self.struct()
        raise ValueError(f"Thrift type {kind}")


class Writer:
    """Collects the bytes of values in `data`."""

    def __init__(self) -> None:
        self.data = bytearray()

    def _varint(self, value: int) -> None:
        while value >= _MORE:
            self.data.append(value & 0x7F | _MORE)
            value >>= 7
        self.data.append(value)

    def _signed(self, value: int) -> None:
        self._varint((value << 1) ^ (value >> 63))

    def struct(self, fields: Struct) -> None:
        """A struct; fields in ascending order."""
        last = 0
        for number, (kind, value) in fields.items():
            step = number - last
            if 0 < step <= _SHORT:
                self.data.append(step << 4 | kind)
            else:
                self.data.append(kind)
                self._signed(number)
            last = number
            if kind not in {TRUE, FALSE}:
                self.value(kind, value)
        self.data.append(0)

    def value(self, kind: int, value: Any) -> None:
        """A value of a type."""
        if kind in {TRUE, FALSE, BYTE}:
            self.data.append(value)
        elif kind in {I16, I32, I64}:
            self._signed(value)
        elif kind == DOUBLE:
            self.data += struct.pack("<d", value)
        elif kind == BINARY:
            self._varint(len(value))
            self.data += value
        elif kind in {LIST, SET}:
            size = len(value)
            self.data.append(min(size, _SHORT) << 4 | value.kind)
            if size >= _SHORT:
                self._varint(size)
            for item in value:
                self.value(value.kind, item)
        else:
            self.struct(value)
