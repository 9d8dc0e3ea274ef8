"""Conversion of Python's errors about files to TensorFlow's."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from sparkflow_runtime.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnknownError,
)

_BY_NUMBER: dict[int | None, type[OpError]] = {
    errno.ENOENT: NotFoundError,
    errno.EEXIST: AlreadyExistsError,
    errno.EACCES: PermissionDeniedError,
    errno.EPERM: PermissionDeniedError,
    errno.EROFS: PermissionDeniedError,
    errno.EISDIR: FailedPreconditionError,
    errno.ENOTDIR: FailedPreconditionError,
    errno.ENOTEMPTY: FailedPreconditionError,
    errno.EINVAL: InvalidArgumentError,
    errno.ENAMETOOLONG: InvalidArgumentError,
    errno.ENOSPC: ResourceExhaustedError,
    errno.EFBIG: ResourceExhaustedError,
    errno.EDQUOT: ResourceExhaustedError,
    errno.EMFILE: ResourceExhaustedError,
}


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Converts errors of the operating system in its body to `OpError`s that name `path`.

    Raises:
        NotFoundError, AlreadyExistsError, PermissionDeniedError, ...: By the error's number.
        UnknownError: For other numbers.
    """
    try:
        yield
    except OSError as error:
        raise kind_of(error)(message=f"{path}; {error.strerror or error}") from error
    except ValueError as error:  # a null byte in a path
        raise InvalidArgumentError(message=f"{path!r}: {error}") from error


def kind_of(error: OSError) -> type[OpError]:
    """Returns our class for an error of the operating system."""
    return _BY_NUMBER.get(error.errno) or _by_class(error)


def _by_class(error: OSError) -> type[OpError]:
    # pyarrow's file systems raise classes without a number.
    if isinstance(error, FileNotFoundError):
        return NotFoundError
    if isinstance(error, PermissionError):
        return PermissionDeniedError
    if isinstance(error, FileExistsError):
        return AlreadyExistsError
    return UnknownError
