"""Opening a file, compressed or not, as a stream of its plain bytes.

The format is told by the file's first bytes, never by its name: rotation renames files, and people do.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from sleepwatch.errors import SourceError, os_words

_DAMAGE = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
_GZIP, _XZ, _ZSTD, _BZIP2 = b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"BZh"


def open_plain(path: Path) -> BinaryIO:
    """Open a regular file for reading its decompressed bytes. Raises SourceError with what is wrong and what to do."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise SourceError(f"{path}: {os_words(error)}", hint=_hint(error)) from error
    return decompressed(file)


def decompressed(file: BinaryIO) -> BinaryIO:
    """The plain bytes of a stream that may be compressed with gzip, xz, zstd or bzip2."""
    buffered = cast(io.BufferedReader, file) if hasattr(file, "peek") else io.BufferedReader(cast(io.RawIOBase, file))
    magic = buffered.peek(8)[:8]
    if magic.startswith(_GZIP):
        return cast(BinaryIO, gzip.GzipFile(fileobj=buffered, mode="rb"))
    if magic.startswith(_XZ):
        return cast(BinaryIO, lzma.LZMAFile(buffered))
    if magic.startswith(_ZSTD):
        return _zstd(cast(BinaryIO, buffered))
    if magic.startswith(_BZIP2):
        return cast(BinaryIO, bz2.BZ2File(buffered))
    return cast(BinaryIO, buffered)


def read_block(stream: BinaryIO, size: int, name: str) -> bytes:
    """The next block; empty at the end. Raises SourceError where the file or its compression is damaged.

    What can still be read before the damage is a block of its own; the next call meets the damage.
    """
    parts: list[bytes] = []
    left = size
    try:
        while left > 0 and (part := cast(io.BufferedIOBase, stream).read1(left)):
            parts.append(part)
            left -= len(part)
    except Exception as error:
        problem = _source_error(name, error)
        if problem is None:
            raise
        if not parts:
            raise problem from error
    return b"".join(parts)


def _source_error(name: str, error: Exception) -> SourceError | None:
    """What is wrong with the source; None for an error that is not the source's."""
    if (
        isinstance(error, _DAMAGE)
        or type(error).__name__ == "ZstdError"  # its module is imported only for a .zst
        or (isinstance(error, OSError) and error.errno is None)  # bzip2's
    ):
        return SourceError(
            f"{name}: the compressed data is damaged or ends too early ({error})",
            hint="what was read up to there is reported; copy the file again",
        )
    if isinstance(error, OSError):
        return SourceError(f"{name}: {os_words(error)}", hint=_hint(error))
    return None


def _zstd(file: BinaryIO) -> BinaryIO:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return cast(BinaryIO, zstd.ZstdFile(file))


def _hint(error: OSError) -> str | None:
    if isinstance(error, FileNotFoundError):
        return "check the path"
    if isinstance(error, PermissionError):
        return "run as a user who may read it, or: sudo sleepwatch scan …"
    if isinstance(error, IsADirectoryError):
        return "name the log files in it"
    return None
