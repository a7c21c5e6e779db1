"""The values of an array in a VTK XML file, read into numpy, some or all at a time.

Values are appended to the file or inside their element, raw or in base64. Their length comes first,
then the values. Compressed values begin with the number of blocks, the length of a block, that of
the last block and the compressed length of each; then the blocks follow. In base64 these numbers
are encoded separately from the blocks.
"""

from __future__ import annotations

import binascii
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.core.extras import need
from slipstream.data.meshes.limits import check_fits
from slipstream.data.meshes.messages import vtk_errors
from slipstream.data.meshes.xml_header import XmlArray, XmlHeader

_BLOCK = 1 << 20


def _unpack_zlib(block: bytes, size: int) -> bytes:
    unpacker = zlib.decompressobj()
    unpacked = unpacker.decompress(block, size + 1)  # one more than declared, to notice it
    if not unpacker.eof and len(unpacked) <= size:
        raise ValueError("an end inside a block")
    return unpacked


def _unpack_lzma(block: bytes, size: int) -> bytes:
    unpacker = lzma.LZMADecompressor()
    unpacked = unpacker.decompress(block, size + 1)
    if not unpacker.eof and len(unpacked) <= size:
        raise ValueError("an end inside a block")
    return unpacked


def _unpack_lz4(block: bytes, size: int) -> bytes:
    if size > 255 * len(block):  # LZ4's limit, checked before VTK allocates a wrong size
        raise ValueError(f"{len(block)} bytes for {size}")
    lz4 = need("vtkmodules.vtkIOCore", "mesh").vtkLZ4DataCompressor()
    with vtk_errors("a block of LZ4"):
        unpacked = lz4.Uncompress(block, len(block), size)
    return memoryview(unpacked).tobytes()


_UNPACK: dict[str, Callable[[bytes, int], bytes]] = {
    "": lambda block, _: block,
    "vtkZLibDataCompressor": _unpack_zlib,
    "vtkLZMADataCompressor": _unpack_lzma,
    "vtkLZ4DataCompressor": _unpack_lz4,
}
_DTYPES = ("float32", "float64", *(f"{sign}int{8 << i}" for sign in ("", "u") for i in range(4)))


def can_read(header: XmlHeader, array: XmlArray) -> bool:
    """Whether this module knows how the values are stored."""
    packed = array.form in ("binary", "appended") and header.compressor in _UNPACK
    return packed and array.dtype in _DTYPES


class Values:
    """The values of an array in sequence; `take` returns the next ones.

    Several arrays may be read alternately from one open file.
    """

    def __init__(self, file: io.BufferedReader, header: XmlHeader, array: XmlArray) -> None:
        self._what = f"{array.label} of {header.file}"
        self._dtype = np.dtype(array.dtype).newbyteorder(header.order)
        inside = array.form != "appended"
        place = _inside(file, array.place) if inside else array.place
        encoded = inside or header.encoded
        self._bytes: _Bytes = (_Base64 if encoded else _Bytes)(file, place)
        self._unpack = _UNPACK[header.compressor]
        self._rest = memoryview(b"")
        try:
            self._lengths = self._read_lengths(header)
        except (EOFError, ValueError) as error:
            raise ValueError(f"{self._what} must be whole, got {error}") from None
        size = sum(size for _, size in self._lengths)
        check_fits(header.file, size, self._bytes.size)
        self.total = size // self._dtype.itemsize
        """How many values the file has in all."""
        self._next = self._decoded()

    def _read_lengths(self, header: XmlHeader) -> list[tuple[int, int]]:
        """For each block its length in the file, and its length when it is unpacked."""

        def numbers(count: int) -> list[int]:
            kind = f"{header.order}u{header.length_bytes}"
            return np.frombuffer(self._bytes.read(count * header.length_bytes), kind).tolist()

        if not header.compressor:
            (total,) = numbers(1)
            self._bytes.check(total)
            whole, rest = divmod(total, _BLOCK)
            return [(_BLOCK, _BLOCK)] * whole + [(rest, rest)] * (rest > 0)
        count, size, last = numbers(3)
        stored = numbers(count)  # `read` checks the end first, so a wrong count takes no memory
        sizes = [size] * count
        if count and last:
            sizes[-1] = last
        return list(zip(stored, sizes, strict=True))

    def take(self, count: int) -> NDArray[Any]:
        """The next values, in the byte order of this machine; ValueError if there are fewer."""
        taken = np.empty(count, self._dtype)
        free = memoryview(taken.view(np.uint8))  # type: ignore[arg-type]
        while len(free):
            if not len(self._rest):
                self._rest = memoryview(next(self._next, b""))
            if not len(self._rest):
                raise ValueError(f"{self._what} must have more values, got {self.total} in all")
            some = min(len(free), len(self._rest))
            free[:some] = self._rest[:some]
            free, self._rest = free[some:], self._rest[some:]
        return taken.astype(taken.dtype.newbyteorder("="), copy=False)

    def _decoded(self) -> Iterator[bytes]:
        for stored, size in self._lengths:
            try:
                block = self._unpack(self._bytes.read(stored), size)
            except (EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
                raise ValueError(f"{self._what} must be whole, got {error}") from None
            if len(block) != size:
                raise ValueError(f"{self._what} must be whole, got a block of {len(block)} bytes")
            yield block


class _Bytes:
    """The bytes of a file from a place on, whatever else is read from the file in between."""

    def __init__(self, file: io.BufferedReader, place: int) -> None:
        self._file, self._place = file, place
        self.size = file.seek(0, 2)

    def check(self, count: int) -> None:
        """Raise EOFError if there are fewer; called before memory is allocated for them."""
        if self._place + count > self.size:
            raise EOFError("the end of the file")

    def read(self, count: int) -> bytes:
        self.check(count)
        self._file.seek(self._place)
        self._place += count
        return self._file.read(count)


class _Base64(_Bytes):
    """Bytes that the file has in base64, four letters for three bytes."""

    _rest = b""

    def read(self, count: int) -> bytes:
        groups = -(-(count - len(self._rest)) // 3)
        decoded = self._rest + binascii.a2b_base64(super().read(4 * groups))
        if len(decoded) < count:
            raise EOFError("the end of the encoded values")
        self._rest = decoded[count:]
        return decoded[:count]


def _inside(file: io.BufferedReader, place: int) -> int:
    """The byte where the text of an element begins, after white space."""
    file.seek(place)
    head = file.read(4096)
    text = head.find(b">") + 1
    return place + text + len(head[text:]) - len(head[text:].lstrip())
