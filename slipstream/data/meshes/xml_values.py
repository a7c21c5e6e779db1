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
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.core.extras import need
from slipstream.data.meshes.limits import check_fits
from slipstream.data.meshes.messages import vtk_errors
from slipstream.data.meshes.xml_header import XmlArray, XmlHeader

_BLOCK = 1 << 20
_LZMA_MEMORY = 1 << 28
"""Bytes that LZMA may use besides the block; its strongest preset needs 65 MB."""
_LARGEST = 1 << 32
"""Bytes of a block, however many it is packed into; VTK's have 32 kB."""
RATIOS = {
    "vtkZLibDataCompressor": 1032, "vtkLZ4DataCompressor": 255, "vtkLZMADataCompressor": 4096
}  # fmt: skip
"""How many bytes one byte can become.

For zlib and LZ4 that is the limit of the format. LZMA has none: zeros become 248 times smaller in
VTK's blocks of 32 kB, 3692 times in a block of 1 MB, 6513 times in one of 16 MB, which is refused.
"""


def _unpack_zlib(block: bytes, size: int) -> bytes:
    stream = zlib.decompressobj()
    unpacked = stream.decompress(block, size + 1)
    if not stream.eof or stream.unused_data:
        raise ValueError("a block of another length")
    return unpacked


def _unpack_lzma(block: bytes, size: int) -> bytes:
    stream = lzma.LZMADecompressor(memlimit=_LZMA_MEMORY)
    unpacked = stream.decompress(block, size + 1)
    if not stream.eof or stream.unused_data:
        raise ValueError("a block of another length")
    return unpacked


def _unpack_lz4(block: bytes, size: int) -> bytes:
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
        stored = find_blocks(file, header, array)
        self._bytes, self._lengths = stored.data, stored.lengths
        self._unpack = _UNPACK[header.compressor]
        self._rest = memoryview(b"")
        check_fits(header.file, stored.total, header.size)
        self.total = stored.total // self._dtype.itemsize
        """How many values the file has in all."""
        self._next = self._decoded()

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


class StoredBytes:
    """The bytes of a file from one place to another, whatever else is read from it in between."""

    def __init__(self, file: io.BufferedReader, place: int, end: int) -> None:
        self._file, self._place, self._end = file, place, end

    def after(self, count: int) -> int:
        """The byte of the file that follows the next `count` ones."""
        return self._place + count

    def check(self, count: int) -> None:
        """Raise EOFError if there are fewer; called before memory is allocated for them."""
        if self.after(count) > self._end:
            raise EOFError("the end of its data")

    def read(self, count: int) -> bytes:
        self.check(count)
        length = self.after(count) - self._place
        self._file.seek(self._place)
        self._place += length
        return self._file.read(length)


class Base64Bytes(StoredBytes):
    """Bytes that the file has in base64, four letters for three bytes."""

    _rest = b""

    def after(self, count: int) -> int:
        return self._place + 4 * max(0, -(-(count - len(self._rest)) // 3))

    def read(self, count: int) -> bytes:
        try:
            decoded = self._rest + binascii.a2b_base64(super().read(count), strict_mode=True)
        except binascii.Error:
            raise ValueError("letters that are no base64") from None
        if len(decoded) < count:
            raise EOFError("the end of the encoded values")
        self._rest = decoded[count:]
        return decoded[:count]


@dataclass(frozen=True, eq=False)
class Blocks:
    """Where the values of an array are, from the numbers that come before them."""

    data: StoredBytes
    """The blocks, one after the other."""
    lengths: list[tuple[int, int]]
    """For each block its length in the file, and its length when it is unpacked."""
    total: int
    """Bytes of the values."""
    end: int
    """The byte of the file that follows them."""


def find_blocks(file: io.BufferedReader, header: XmlHeader, array: XmlArray) -> Blocks:
    """ValueError if the blocks do not fit into the file or cannot be unpacked to their lengths."""
    begin, end = array.place, array.end
    if array.form == "appended":
        end = header.appended[1]
    else:
        file.seek(begin)
        head = file.read(min(4096, end - begin))
        begin += len(head) - len(head.lstrip())
    encoded = header.encoded or array.form != "appended"
    data = (Base64Bytes if encoded else StoredBytes)(file, begin, end)
    try:
        lengths = _read_lengths(data, header)
        packed = sum(stored for stored, _ in lengths)
        data.check(packed)
    except (EOFError, ValueError) as error:
        raise ValueError(f"{array.label} of {header.file} must be whole, got {error}") from None
    return Blocks(data, lengths, sum(size for _, size in lengths), data.after(packed))


def check_letters(file: io.BufferedReader, header: XmlHeader, array: XmlArray) -> None:
    """Raise ValueError unless values in base64 can be decoded; VTK stops at a letter of another
    kind, and leaves the rest of the array as it was in memory."""
    blocks = find_blocks(file, header, array)
    try:
        for stored, _ in blocks.lengths:
            blocks.data.read(stored)
    except (EOFError, ValueError) as error:
        raise ValueError(f"{array.label} of {header.file} must be whole, got {error}") from None


def _read_lengths(data: StoredBytes, header: XmlHeader) -> list[tuple[int, int]]:
    if not header.compressor:
        (total,) = _numbers(data, header, 1)
        data.check(total)
        whole, rest = divmod(total, _BLOCK)
        return [(_BLOCK, _BLOCK)] * whole + [(rest, rest)] * (rest > 0)
    count, size, last = _numbers(data, header, 3)
    stored = _numbers(
        data, header, count
    )  # `read` checks the end first, so a wrong count takes no memory
    sizes = [size] * count
    if count and last:
        sizes[-1] = last
    if size > max(_LARGEST, last):
        raise ValueError(f"blocks of {size} bytes")
    ratio = RATIOS[header.compressor]
    for packed, unpacked in zip(stored, sizes, strict=True):
        if unpacked > ratio * packed:
            raise ValueError(f"{unpacked} bytes packed into {packed}, fewer than 1 in {ratio}")
    return list(zip(stored, sizes, strict=True))


def _numbers(data: StoredBytes, header: XmlHeader, count: int) -> list[int]:
    kind = f"{header.order}u{header.length_bytes}"
    return np.frombuffer(data.read(count * header.length_bytes), kind).tolist()
