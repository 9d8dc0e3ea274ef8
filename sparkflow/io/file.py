"""`GFile`: a file as Python programs of TensorFlow 1's time read and write it."""

from __future__ import annotations

from types import TracebackType
from typing import Any, BinaryIO

from sparkflow_runtime.errors import InvalidArgumentError, OutOfRangeError, PermissionDeniedError
from sparkflow_runtime.files import system
from sparkflow_runtime.files.errors import translated

_MODES = ("r", "w", "a", "r+", "w+", "a+")


class GFile:
    """A file of this host or behind a URI. It is opened at the first read or write.

    Args:
        name: Its path or URI.
        mode: `r`, `w` or `a`, with `+` for both on this host; with `b` reading gives bytes, else
            text in UTF-8. Text and bytes can be written in every mode.

    Raises:
        InvalidArgumentError: The mode is none of these.
    """

    def __init__(self, name: Any, mode: str = "r") -> None:
        plain = mode.replace("b", "")
        if plain not in _MODES:
            raise InvalidArgumentError(
                message=f"mode is not 'r' or 'w' or 'a' or 'r+' or 'w+' or 'a+': {mode!r}"
            )
        self._name = name
        self._mode = mode
        self._plain_mode = plain
        self._binary = "b" in mode
        self._stream: BinaryIO | None = None

    @property
    def name(self) -> Any:
        """The path it was made with."""
        return self._name

    @property
    def mode(self) -> str:
        """The mode it was made with."""
        return self._mode

    def read(self, n: int = -1) -> Any:
        """The next `n` bytes (characters of ASCII text), or everything up to the end."""
        stream = self._for_reading()
        with translated(self._path):
            return self._decoded(stream.read() if n < 0 else stream.read(n))

    def readline(self) -> Any:
        r"""The next line with its newline and without any \r; empty at the end."""
        stream = self._for_reading()
        with translated(self._path):
            return self._decoded(stream.readline().replace(b"\r", b""))

    def readlines(self) -> list[Any]:
        """The lines that are left."""
        return list(self)

    def write(self, file_content: Any) -> None:
        """Appends text (as UTF-8) or bytes at the position."""
        stream = self._for_writing()
        data = file_content.encode("utf-8") if isinstance(file_content, str) else file_content
        with translated(self._path):
            stream.write(bytes(data))

    def size(self) -> int:
        """The size of the file in bytes."""
        return system.statistics(self._name).length

    def seek(self, offset: int | None = None, whence: int = 0, position: int | None = None) -> None:
        """Goes to a position.

        Args:
            offset: Bytes from where `whence` says.
            whence: 0 from the start, 1 from here, 2 from the end.
            position: The older name of `offset`, from the start.

        Raises:
            TypeError: Neither `offset` nor `position` is given.
            InvalidArgumentError: `whence` is none of these.
            OutOfRangeError: The position is before the start or behind the end.
        """
        if position is not None:
            offset = position
        if offset is None:
            raise TypeError("seek(): offset argument required")
        if whence not in (0, 1, 2):
            raise InvalidArgumentError(message=f"whence must be 0, 1 or 2, got {whence}")
        stream = self._for_reading()
        start = (0, stream.tell(), self.size() if whence == 2 else 0)[whence]
        if not 0 <= start + offset <= max(self.size(), start):
            raise OutOfRangeError(message=f"{self._name}: cannot seek to byte {start + offset}")
        stream.seek(start + offset)

    def tell(self) -> int:
        """The position in bytes."""
        if "r" in self._plain_mode or self._stream is None:
            self._for_reading() if self._readable else self._for_writing()
        assert self._stream is not None
        return self._stream.tell()

    def seekable(self) -> bool:
        """True."""
        return True

    def flush(self) -> None:
        """Hands what was written to the operating system."""
        if self._stream is not None and self._writable:
            with translated(self._path):
                self._stream.flush()

    def close(self) -> None:
        """Closes the file; may be called again. A later read or write reopens it."""
        stream, self._stream = self._stream, None
        if stream is not None:
            with translated(self._path):
                stream.close()

    def next(self) -> Any:
        """The next line, for loops."""
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def __next__(self) -> Any:
        return self.next()

    def __iter__(self) -> GFile:
        return self

    def __enter__(self) -> GFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_stream", None) is not None:
            self.close()

    @property
    def _path(self) -> str:
        return system.as_text(self._name)

    @property
    def _readable(self) -> bool:
        return self._plain_mode != "w" and self._plain_mode != "a"

    @property
    def _writable(self) -> bool:
        return self._plain_mode != "r"

    def _for_reading(self) -> BinaryIO:
        if not self._readable:
            raise PermissionDeniedError(message="File isn't open for reading")
        return self._opened()

    def _for_writing(self) -> BinaryIO:
        if not self._writable:
            raise PermissionDeniedError(message="File isn't open for writing")
        return self._opened()

    def _opened(self) -> BinaryIO:
        if self._stream is None:
            self._stream = system.open_file(
                self._name, self._plain_mode.replace("+", "") + "b" + "+" * ("+" in self._mode)
            )
        return self._stream

    def _decoded(self, data: bytes) -> Any:
        return data if self._binary else data.decode("utf-8")


class FastGFile(GFile):
    """`GFile`, as TensorFlow 1 also calls it."""
