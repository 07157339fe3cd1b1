"""A flat encoding of function arguments, so that mutated bytes are mutated arguments of the right types."""

from __future__ import annotations

from collections.abc import Sequence

Part = bytes | Sequence[bytes] | tuple[int, int]


class Reader:
    """Takes arguments off some bytes; where they end, integers are 0 and bytes are empty."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes, or what is left."""
        part = self._data[self._at : self._at + count]
        self._at += count
        return part

    def number(self, size: int) -> int:
        """A big-endian unsigned integer of ``size`` bytes."""
        return int.from_bytes(self.take(size).ljust(size, b"\0"), "big")

    def blob(self) -> bytes:
        """Bytes after their length in 3 bytes."""
        return self.take(self.number(3))

    def blobs(self) -> list[bytes]:
        """Up to 65,535 blobs after their number; fewer if the data ends."""
        found = []
        for _ in range(self.number(2)):
            if self._at >= len(self._data):
                break
            found.append(self.blob())
        return found

    @property
    def rest(self) -> bytes:
        """All bytes that are left."""
        return self.take(len(self._data))


def pack(*parts: Part) -> bytes:
    """What ``Reader`` takes: bytes as a blob, a list as blobs, (value, size) as a number."""
    out = []
    for part in parts:
        if isinstance(part, bytes):
            out.append(len(part).to_bytes(3, "big") + part)
        elif isinstance(part, tuple) and len(part) == 2 and isinstance(part[0], int):
            out.append(part[0].to_bytes(part[1], "big"))
        else:
            out.append(len(part).to_bytes(2, "big"))
            out += [len(item).to_bytes(3, "big") + item for item in part if isinstance(item, bytes)]
    return b"".join(out)
