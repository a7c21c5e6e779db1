"""The words of a legacy VTK file, read one by one, while values between them are skipped."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from itertools import islice

from slipstream.data.meshes.arrays import as_text

_BLOCK = 1 << 20
_DTYPES = {
    "bit": "uint8", "char": "int8", "signed_char": "int8", "unsigned_char": "uint8",
    "short": "int16", "unsigned_short": "uint16", "int": "int32", "unsigned_int": "uint32",
    "long": "int64", "unsigned_long": "uint64", "float": "float32", "double": "float64",
    "vtkidtype": "int32", "vtktypeint64": "int64", "vtktypeuint64": "uint64",
}  # fmt: skip


@dataclass(frozen=True)
class Block:
    """Consecutive values of one dtype; `place` is the byte of the file where they begin."""

    place: int
    count: int
    dtype: str
    packed: bool = False
    """Whether the values are bits, eight to a byte."""


class Words:
    """An open file of `size` bytes, read word by word from its beginning."""

    def __init__(self, file: io.BufferedReader, size: int) -> None:
        self.file, self.size = file, size
        self.binary = False

    def place(self) -> int:
        return self.file.tell()

    def word(self, last: bool = False) -> str:
        """The next word; white space after it stays unread. With `last`, "" at the file's end."""
        letters = bytearray()
        while letter := self.file.read(1):
            if not letter.isspace():
                letters += letter
            elif letters:
                self.file.seek(-1, 1)
                break
        if not letters and not last:
            raise EOFError("an end where more must follow")
        return as_text(bytes(letters))

    def number(self) -> int:
        value = int(self.word())
        if value < 0:
            raise ValueError(f"a count of {value}")
        return value

    def line(self) -> str:
        return as_text(self.file.readline())

    def skip_metadata(self) -> None:
        self.line()
        while self.file.readline().strip():
            pass

    def skip(self, count: int, kind: str) -> Block:
        """Skip values and return where they are; EOFError if the file has fewer."""
        kind = kind.lower()
        if kind not in _DTYPES:
            raise ValueError(f"the unknown type {kind[:40]!r} before byte {self.place()}")
        if self.binary:
            self.line()
        block = Block(self.place(), count, _DTYPES[kind], kind == "bit")
        if self.binary:
            width = int(re.sub(r"\D", "", block.dtype)) // 8
            self._forward((count + 7) // 8 if block.packed else count * width)
        else:
            self._skip_text(count)
        return block

    def _forward(self, length: int) -> None:
        end = self.place() + length
        if end > self.size:
            raise EOFError(f"{self.size} bytes, {end} or more needed")
        self.file.seek(end)

    def _skip_text(self, count: int) -> None:
        while count > 0:
            begin = self.place()
            some = min(_BLOCK, 32 * count)  # about as long as the values, as most arrays are small
            text = self.file.read(some) + self.file.readline()
            if not text:
                raise EOFError(f"an end where {count} more values must follow")
            read = len(text.split())
            if read > count:
                final = next(islice(re.finditer(rb"\S+", text), count - 1, None))
                self.file.seek(begin + final.end())
            count -= read

    def skip_strings(self, count: int) -> None:
        """Skip strings: a line each in text files; in binary ones a length of 1 to 8 bytes first.

        The two highest bits of the length say how many bytes it has: 3 for one, 0 for eight.
        """
        self.line()
        for _ in range(count):
            if not self.binary:
                if not self.file.readline():
                    raise EOFError("an end where a string must follow")
                continue
            first = self.file.read(1)
            if not first:
                raise EOFError("an end where a string must follow")
            width = 1 << (3 - (first[0] >> 6))
            rest = int.from_bytes(self.file.read(width - 1), "big")
            self._forward(((first[0] & 63) << 8 * (width - 1)) + rest)
