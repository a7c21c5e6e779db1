"""The words of a legacy VTK file, read one by one, while values between them are skipped."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass

from slipstream.data.meshes.arrays import as_text
from slipstream.data.meshes.text_numbers import next_numbers

_DTYPES = {
    "bit": "uint8", "char": "int8", "signed_char": "int8", "unsigned_char": "uint8",
    "short": "int16", "unsigned_short": "uint16", "int": "int32", "unsigned_int": "uint32",
    "long": "int64", "unsigned_long": "uint64", "float": "float32", "double": "float64",
    "vtkidtype": "int32", "vtktypeint64": "int64", "vtktypeuint64": "uint64",
}  # fmt: skip
_SECTIONS = (
    "POINTS", "CELLS", "CELL_TYPES", "OFFSETS", "CONNECTIVITY", "VERTICES", "LINES", "POLYGONS",
    "TRIANGLE_STRIPS", "POINT_DATA", "CELL_DATA", "SCALARS", "LOOKUP_TABLE", "FIELD", "VECTORS",
    "NORMALS", "TENSORS", "TENSORS6", "METADATA", "X_COORDINATES", "Y_COORDINATES",
    "Z_COORDINATES",
)  # fmt: skip


@dataclass(frozen=True)
class Block:
    """Consecutive values of one dtype; `place` is the byte of the file where they begin."""

    place: int
    count: int
    dtype: str
    packed: bool = False
    """Whether the values are bits, eight to a byte."""
    text: bool = False


class Words:
    """An open file of `size` bytes, read word by word from its beginning."""

    def __init__(self, file: io.BufferedReader, size: int) -> None:
        self.file, self.size = file, size
        self.binary = False
        self._ends: list[tuple[bytes, bytes, int]] = []
        """The last byte of each binary block, the white space behind it, and the block's place."""

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
        word = self.word()
        if not re.fullmatch(r"\+?[0-9]{1,40}", word):
            raise ValueError(f"{word[:40]!r} where a count must be")
        return int(word)

    def line(self) -> str:
        return as_text(self.file.readline())

    def skip_metadata(self) -> None:
        """Skip lines up to an empty one; ValueError for a line that belongs to no METADATA."""
        self.blank_line()
        while words := self.line().split():
            array = len(words) == 4 and words[3].lower() in (*_DTYPES, "string")
            if array or (len(words) > 1 and words[0] in _SECTIONS):
                raise ValueError(f"{' '.join(words)[:40]!r} inside METADATA")

    def blank_line(self) -> None:
        """Go to the next line; ValueError if anything is left on this one."""
        if rest := self.line().strip():
            raise ValueError(f"{rest[:40]!r} where a line must end, before byte {self.place()}")

    def skip(self, count: int, kind: str) -> Block:
        """Skip values and return where they are; EOFError if the file has fewer."""
        kind = kind.lower()
        if kind not in _DTYPES:
            raise ValueError(f"the unknown type {kind[:40]!r} before byte {self.place()}")
        if self.binary:
            self.blank_line()
        block = Block(self.place(), count, _DTYPES[kind], kind == "bit", not self.binary)
        if self.binary:
            width = int(re.sub(r"\D", "", block.dtype)) // 8
            self._forward((count + 7) // 8 if block.packed else count * width)
            self._end_block(block.place)
        else:
            for _ in next_numbers(self.file, count, block.dtype):
                pass
        return block

    def _forward(self, length: int) -> None:
        end = self.place() + length
        if end > self.size:
            raise EOFError(f"{self.size} bytes, {end} or more needed")
        self.file.seek(end)

    def _end_block(self, begin: int) -> None:
        """White space must follow a binary block, or the end of the file.

        Where bytes are lost the block would end in a word, or one byte later, in white space.
        """
        end = self.place()
        if end == begin:
            return
        self.file.seek(end - 1)
        last, behind = self.file.read(1), self.file.read(8)
        gap = behind[: len(behind) - len(behind.lstrip(b" \t\r\n"))]
        if behind and not gap:
            raise ValueError(f"no white space after the values from byte {begin} to {end}")
        if not behind and last == b"\n":
            raise ValueError(f"values from byte {begin} on that end inside its last line")
        self._ends.append((last, gap, begin))
        self.file.seek(end)

    def check_ends(self) -> None:
        """Where a writer puts two letters of white space after its blocks, all must have both."""
        gaps = {gap for _, gap, _ in self._ends}
        for last, gap, begin in self._ends:
            if last.isspace() and last + gap in gaps:
                raise ValueError(f"values from byte {begin} on that end inside white space")

    def skip_strings(self, count: int) -> None:
        """Skip strings: a line each in text files; in binary ones a length of 1 to 8 bytes first.

        The two highest bits of the length say how many bytes it has: 3 for one, 0 for eight.
        """
        self.blank_line()
        begin = self.place()
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
        if self.binary:
            self._end_block(begin)
