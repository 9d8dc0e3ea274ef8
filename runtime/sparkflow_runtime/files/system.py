"""One interface to files on this host and, by URI (`hdfs:`, `s3:`, `gs:`, ...), elsewhere.

A path without a scheme, or with `file:`, is on this host. Other schemes use pyarrow, which is
imported on first use. Errors are those of `sparkflow_runtime.errors`.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import translate
from typing import Any, BinaryIO, Protocol

from sparkflow_runtime.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    NotFoundError,
    UnimplementedError,
)
from sparkflow_runtime.files.arrow import require_arrow
from sparkflow_runtime.files.errors import translated

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):/")
_HOST = re.compile(r"//[^/]*(?=/)")
_WILD = re.compile(r"[*?\[]")
_GOOGLE = ("gs", "gcs")
_GIVEN_UP_S = 60
"""Time limit for a `gs:` server to answer; pyarrow's own is 15 minutes."""
_LEASE_S = 90.0
"""Longer than any finite lease of Azure's: 60 s."""
_LEASE_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """The result of `stat`.

    Attributes:
        length: The size in bytes.
        mtime_nsec: The time of the last change, in nanoseconds since 1970.
        is_directory: Whether it is a directory.
    """

    length: int
    mtime_nsec: int
    is_directory: bool


class FileSystem(Protocol):
    """The interface of each kind of storage. Paths have no scheme."""

    def open(self, path: str, mode: str, seeks: bool = True) -> BinaryIO:
        """Opens a binary stream; `mode` is `rb`, `wb` or `ab`, with `+` only on this host.

        Sequential reading does not need `seeks`.
        """

    def stat(self, path: str) -> FileStatistics:
        """Returns size and time. Raises NotFoundError if the path does not exist."""

    def list(self, path: str) -> list[str]:
        """The names in a directory, sorted."""

    def make_dir(self, path: str) -> None:
        """Creates one directory; its parent must exist."""

    def make_dirs(self, path: str) -> None:
        """Creates a directory and missing parents."""

    def remove(self, path: str) -> None:
        """Deletes one file."""

    def remove_tree(self, path: str) -> None:
        """Deletes a directory and everything in it."""

    def move(self, source: str, target: str) -> None:
        """Renames; replaces a file."""


class LocalFiles:
    """Files of this host."""

    def open(self, path: str, mode: str, seeks: bool = True) -> BinaryIO:
        """Opens a file."""
        if os.path.isdir(path):
            raise FailedPreconditionError(message=f"{path}; Is a directory")
        return open(path, mode)  # type: ignore[return-value]  # binary: every mode has a b

    def stat(self, path: str) -> FileStatistics:
        """Looks at a file or directory."""
        found = os.stat(path)
        return FileStatistics(found.st_size, found.st_mtime_ns, stat.S_ISDIR(found.st_mode))

    def list(self, path: str) -> list[str]:
        """Names, sorted."""
        return sorted(os.listdir(path))

    def make_dir(self, path: str) -> None:
        """Makes one directory."""
        os.mkdir(path)

    def make_dirs(self, path: str) -> None:
        """Makes directories."""
        os.makedirs(path, exist_ok=True)

    def remove(self, path: str) -> None:
        """Deletes a file or a link."""
        if os.path.isdir(path) and not os.path.islink(path):
            raise FailedPreconditionError(message=f"{path}; Is a directory")
        os.remove(path)

    def remove_tree(self, path: str) -> None:
        """Deletes a directory; links in it are not followed."""
        shutil.rmtree(path)

    def move(self, source: str, target: str) -> None:
        """Renames atomically."""
        os.replace(source, target)


class ArrowFiles:
    """Files in storage that pyarrow supports.

    Args:
        system: A `pyarrow.fs.FileSystem`.
    """

    def __init__(self, system: Any) -> None:
        self._system = system

    def open(self, path: str, mode: str, seeks: bool = True) -> BinaryIO:
        """Opens a stream; a written file appears when it is closed.

        Opening a seekable `gs:` file waits for the server with the GIL held, which blocks all
        threads of the process (pyarrow 26): hence `seeks`.
        """
        if "+" in mode:
            raise UnimplementedError(
                message=f"{path}: the mode {mode!r} is for files of this host; open for reading or "
                "for writing"
            )
        if "r" in mode and seeks:
            opened: BinaryIO = self._system.open_input_file(path)
        elif "r" in mode:
            opened = self._system.open_input_stream(path, compression=None)
        elif "a" in mode:
            opened = self._system.open_append_stream(path)
        else:
            opened = self._system.open_output_stream(path)
        return opened

    def stat(self, path: str) -> FileStatistics:
        """Looks at a file or directory."""
        from pyarrow import fs

        info = self._system.get_file_info(path)
        if info.type == fs.FileType.NotFound:
            raise NotFoundError(message=f"{path}; No such file or directory")
        return FileStatistics(
            info.size or 0, info.mtime_ns or 0, info.type == fs.FileType.Directory
        )

    def list(self, path: str) -> list[str]:
        """Names, sorted."""
        from pyarrow import fs

        if not self.stat(path).is_directory:
            raise FailedPreconditionError(message=f"{path}; Not a directory")
        return sorted(i.base_name for i in self._system.get_file_info(fs.FileSelector(path)))

    def make_dir(self, path: str) -> None:
        """Makes one directory."""
        try:
            self.stat(path)
        except NotFoundError:
            self._system.create_dir(path, recursive=False)
            return
        raise AlreadyExistsError(message=f"{path}; File exists")

    def make_dirs(self, path: str) -> None:
        """Makes directories."""
        self._system.create_dir(path, recursive=True)

    def remove(self, path: str) -> None:
        """Deletes a file."""
        if self.stat(path).is_directory:
            raise FailedPreconditionError(message=f"{path}; Is a directory")
        self._system.delete_file(path)

    def remove_tree(self, path: str) -> None:
        """Deletes a directory."""
        from pyarrow import fs

        self.stat(path)
        try:
            self._system.delete_dir(path)
        except FileNotFoundError:
            # A `gs:` folder may exist only through its files: then nothing is left to delete.
            if self._system.get_file_info(path).type != fs.FileType.NotFound:
                raise

    def move(self, source: str, target: str) -> None:
        """Renames; in an Azure account without directories the store copies the file."""
        found = self.stat(source)
        try:
            self._system.move(source, target)
        except NotImplementedError:
            if found.is_directory:
                raise
            self._copy_over(source, target)
            self._system.delete_file(source)

    def _copy_over(self, source: str, target: str) -> None:
        """Copies within an Azure account, once there is no lease on the target.

        pyarrow takes a lease on files that it deletes. A process that dies then leaves it for a
        while, and deletions themselves wait for its end.
        """
        until = time.monotonic() + _LEASE_S
        while True:
            try:
                self._system.copy_file(source, target)
                return
            except OSError as error:
                if "LeaseIdMissing" not in str(error) or time.monotonic() > until:
                    raise
            time.sleep(_LEASE_LOOK_S)


LOCAL = LocalFiles()


def resolve(path: str) -> tuple[FileSystem, str, str]:
    """Resolves a path.

    Returns:
        The storage, the path in it, and the prefix that makes such a path a URI again.

    Raises:
        UnimplementedError: pyarrow does not know the scheme, or is not installed.
    """
    match = _SCHEME.match(path)
    if match is None:
        return LOCAL, path, ""
    if match[1] == "file":
        # As in TensorFlow and Hadoop, "%", "?" and "#" are literal.
        return LOCAL, _HOST.sub("", path.removeprefix("file:"), count=1), ""
    try:
        system, inner = _elsewhere(arrow_uri(path))
    except (ImportError, ValueError, NotImplementedError) as error:
        raise UnimplementedError(
            message=f"File system scheme '{match[1]}' not implemented (file: '{path}'): {error}"
        ) from error
    return ArrowFiles(system), inner, path[: len(path) - len(inner)]


def local_path(path: Any) -> str:
    """Returns a path of this host without `file:`, for code that supports only local files.

    Raises:
        UnimplementedError: It is not on this host.
    """
    path = as_text(path)
    match = _SCHEME.match(path)
    if match is None or match[1] == "file":
        return resolve(path)[1]
    raise UnimplementedError(
        message=f"File system scheme '{match[1]}' not implemented (file: '{path}'): checkpoints "
        "and events are written on the hosts of the tasks; give a path of a file system they share"
    )


def schemes() -> list[str]:
    """Returns the supported schemes of URIs; "" for plain paths."""
    return ["", "abfs", "abfss", "file", "gs", "hdfs", "s3", "s3a", "s3n", "viewfs"]


def arrow_uri(uri: str) -> str:
    """Converts a path or URI for pyarrow: `s3a:` and `s3n:` are Hadoop's names of `s3:`.

    Adds a time limit for servers that do not answer to `gs:` URIs without one.
    """
    scheme, colon, rest = uri.partition("://")
    if colon and scheme in _GOOGLE and "retry_limit_seconds=" not in rest:
        return f"{uri}{'&' if '?' in rest else '?'}retry_limit_seconds={_GIVEN_UP_S}"
    return f"s3{colon}{rest}" if colon and scheme in ("s3a", "s3n") else uri


def _elsewhere(uri: str) -> tuple[Any, str]:
    require_arrow()
    from pyarrow import fs

    found: tuple[Any, str] = fs.FileSystem.from_uri(uri)
    return found


def as_text(path: Any) -> str:
    """Returns a path as a string: from a string, UTF-8 bytes or an object with `__fspath__`."""
    plain = os.fspath(path)
    return plain.decode("utf-8", "surrogateescape") if isinstance(plain, bytes) else plain


def open_file(path: Any, mode: str = "rb", seeks: bool = True) -> BinaryIO:
    """Opens a file as a binary stream.

    Args:
        path: The file.
        mode: `rb`, `wb` or `ab`, with `+` only on this host.
        seeks: Whether a stream for reading must support `seek` and `tell`.

    Raises:
        NotFoundError, PermissionDeniedError, FailedPreconditionError: It cannot be opened.
    """
    path = as_text(path)
    system, inner, _ = resolve(path)
    with translated(path):
        return system.open(inner, mode, seeks)


def read_file(path: Any) -> bytes:
    """Returns the contents of a file."""
    with open_file(path, seeks=False) as stream, translated(as_text(path)):
        return stream.read()


def exists(path: Any) -> bool:
    """Whether a file or directory exists."""
    try:
        statistics(path)
    except (NotFoundError, FailedPreconditionError):
        return False
    return True


def is_directory(path: Any) -> bool:
    """Whether the path is a directory."""
    try:
        return statistics(path).is_directory
    except (NotFoundError, FailedPreconditionError):
        return False


def statistics(path: Any) -> FileStatistics:
    """Returns size and time of a file or directory.

    Raises:
        NotFoundError: There is none.
    """
    path = as_text(path)
    system, inner, _ = resolve(path)
    with translated(path):
        return system.stat(inner)


def list_directory(path: Any) -> list[str]:
    """Returns the names in a directory, sorted.

    Raises:
        NotFoundError: There is no such directory.
    """
    path = as_text(path)
    if not is_directory(path):
        raise NotFoundError(message=f"Could not find directory {path}")
    system, inner, _ = resolve(path)
    with translated(path):
        return system.list(inner)


def make_dir(path: Any) -> None:
    """Creates one directory.

    Raises:
        AlreadyExistsError: It exists.
        NotFoundError: Its parent does not.
    """
    path = as_text(path)
    system, inner, _ = resolve(path)
    with translated(path):
        system.make_dir(inner)


def make_dirs(path: Any) -> None:
    """Creates a directory and missing parents."""
    path = as_text(path)
    system, inner, _ = resolve(path)
    with translated(path):
        system.make_dirs(inner)


def remove(path: Any) -> None:
    """Deletes a file.

    Raises:
        NotFoundError: There is none.
        FailedPreconditionError: It is a directory.
    """
    path = as_text(path)
    system, inner, _ = resolve(path)
    with translated(path):
        system.remove(inner)


def delete_recursively(path: Any) -> None:
    """Deletes a directory and everything in it.

    Raises:
        NotFoundError: There is none.
    """
    path = as_text(path)
    if not is_directory(path):
        remove(path)
        return
    system, inner, _ = resolve(path)
    with translated(path):
        system.remove_tree(inner)


def _may_write(target: str, overwrite: bool) -> None:
    if not overwrite and exists(target):
        raise AlreadyExistsError(message=f"file already exists: {target}")


def rename(source: Any, target: Any, overwrite: bool = False) -> None:
    """Renames or moves within one storage.

    Raises:
        NotFoundError: There is no source.
        AlreadyExistsError: The target exists and `overwrite` is False.
        UnimplementedError: The target is in another storage.
    """
    source, target = as_text(source), as_text(target)
    _may_write(target, overwrite)
    (system, inner, head), (_, goal, other) = resolve(source), resolve(target)
    if head != other:
        raise UnimplementedError(message=f"Cannot rename {source} to {target}: copy and remove it")
    with translated(source):
        system.move(inner, goal)


def copy(source: Any, target: Any, overwrite: bool = False) -> None:
    """Copies one file, also from one storage to another.

    Raises:
        NotFoundError: There is no source.
        AlreadyExistsError: The target exists and `overwrite` is False.
    """
    source, target = as_text(source), as_text(target)
    with open_file(source, seeks=False) as stream:
        _may_write(target, overwrite)
        with open_file(target, "wb") as written, translated(target):
            shutil.copyfileobj(stream, written, 1 << 20)


def walk(top: Any, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yields, for `top` and each directory below, its path, its directories and its files.

    Args:
        top: A directory; nothing is yielded otherwise.
        in_order: Whether a directory precedes its subdirectories, or follows them.
    """
    top = as_text(top)
    try:
        names = list_directory(top)
    except NotFoundError:
        return
    folders = [name for name in names if is_directory(join(top, name))]
    here = (top, folders, [name for name in names if name not in set(folders)])
    if in_order:
        yield here
    for folder in folders:
        yield from walk(join(top, folder), in_order)
    if not in_order:
        yield here


def join(*parts: str) -> str:
    """Joins parts of a path with slashes."""
    return os.path.join(*parts)


def glob(pattern: Any) -> list[str]:
    """Returns the paths that match, sorted.

    `*`, `?` and `[...]` never match a slash; unlike a shell's, `*` matches a leading dot.

    Args:
        pattern: One pattern or several.
    """
    if not isinstance(pattern, str | bytes | os.PathLike) and isinstance(pattern, Iterable):
        return [path for each in pattern for path in glob(each)]
    text = as_text(pattern)
    first = _WILD.search(text)
    if first is None:
        return [text] if exists(text) else []
    _, _, head = resolve(text[: first.start()] or ".")
    at = text.rfind("/", 0, first.start()) + 1
    found = [text[:at]]
    parts = text[at:].split("/")
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        found = [
            path
            for folder in found
            for path in _matching(folder, part)
            if last or is_directory(path)
        ]
        if not last:
            found = [path + "/" for path in found]
    assert all(path.startswith(head) for path in found)
    return sorted(found)


def _matching(folder: str, part: str) -> Iterator[str]:
    if not _WILD.search(part):
        if exists(folder + part):
            yield folder + part
        return
    accepts = re.compile(translate(part)).match
    if is_directory(folder or "."):
        yield from (folder + name for name in list_directory(folder or ".") if accepts(name))
