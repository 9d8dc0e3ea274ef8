"""Streams that compress on writing and decompress on reading: gzip and zlib."""

from __future__ import annotations

import gzip
import io
import zlib
from types import TracebackType
from typing import BinaryIO

from sparkflow_runtime.errors import DataLossError, InvalidArgumentError

KINDS = ("", "GZIP", "ZLIB")
"""TensorFlow's names; the empty one for no compression."""
_CHUNK_BYTES = 1 << 18


def check_kind(kind: str) -> str:
    """Returns the name of a compression.

    Raises:
        InvalidArgumentError: It is not one of `KINDS`.
    """
    if kind not in KINDS:
        raise InvalidArgumentError(
            message=f"Unsupported compression_type: {kind!r}; give '', 'GZIP' or 'ZLIB'"
        )
    return kind


def expanding(stream: BinaryIO, kind: str) -> BinaryIO:
    """Returns a stream of the decompressed data of `stream`. Closing it closes `stream`.

    Reading raises DataLossError if the data are damaged.
    """
    if not check_kind(kind):
        return stream
    return io.BufferedReader(_Expanding(stream, 31 if kind == "GZIP" else 15), _CHUNK_BYTES)


class _Expanding(io.RawIOBase):
    """Decompresses one or several consecutive compressed streams.

    Attributes:
        name: The name of the underlying file, for messages; empty if it has none.
    """

    def __init__(self, stream: BinaryIO, window_bits: int) -> None:
        self.name = getattr(stream, "name", "")
        self._stream = stream
        self._window_bits = window_bits
        self._engine = zlib.decompressobj(window_bits)
        self._started = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]  # a buffer
        data = self._next(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()

    def _next(self, size: int) -> bytes:
        while True:
            if self._engine.eof:
                rest = self._engine.unused_data or self._stream.read(_CHUNK_BYTES)
                if not rest:
                    return b""
                self._engine = zlib.decompressobj(self._window_bits)
            else:
                rest = self._engine.unconsumed_tail or self._stream.read(_CHUNK_BYTES)
                if not rest:
                    data = self._engine.flush()
                    if not data and self._started:
                        raise self._damaged("The compressed data end too early")
                    return data
            self._started = True
            try:
                data = self._engine.decompress(rest, size)
            except zlib.error as error:
                raise self._damaged(f"The compressed data are damaged: {error}") from error
            if data:
                return data

    def _damaged(self, what: str) -> DataLossError:
        return DataLossError(message=f"{self.name}: {what}" if self.name else what)


class _Compressing(io.RawIOBase):
    """Writes zlib's format."""

    def __init__(self, stream: BinaryIO, level: int) -> None:
        self._stream = stream
        self._engine = zlib.compressobj(level)

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        chunk = bytes(data)  # type: ignore[call-overload]  # a buffer
        self._stream.write(self._engine.compress(chunk))
        return len(chunk)

    def flush(self) -> None:
        if not self.closed:
            self._stream.flush()

    def close(self) -> None:
        if not self.closed:
            self._stream.write(self._engine.flush())
            super().close()  # flushes the underlying file, which must still be open
            self._stream.close()


class _Gzip(gzip.GzipFile):
    """Also closes the underlying file."""

    def __init__(self, stream: BinaryIO, level: int) -> None:
        # No time stamp: the same records result in the same file.
        super().__init__(filename="", mode="wb", compresslevel=level, fileobj=stream, mtime=0)
        self._below = stream

    def close(self) -> None:
        super().close()
        self._below.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def compressing(stream: BinaryIO, kind: str, level: int = -1) -> BinaryIO:
    """Returns a stream that writes compressed data to `stream`. Closing it closes `stream`.

    Args:
        stream: Open for writing.
        kind: One of `KINDS`.
        level: From 0 (fast) to 9 (small); -1 for zlib's default.
    """
    if not check_kind(kind):
        return stream
    if kind == "GZIP":
        return _Gzip(stream, 6 if level < 0 else level)  # type: ignore[return-value]  # as much of BinaryIO as is asked for
    return _Compressing(stream, level)  # type: ignore[return-value]  # as much of BinaryIO as is asked for
