"""`tf.errors`: the exceptions of failed runs, and the numbers of their status codes."""

from collections.abc import Iterator
from contextlib import contextmanager

from sparkflow_runtime.errors import (
    AbortedError,
    AlreadyExistsError,
    CancelledError,
    Code,
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    OutOfRangeError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
    UnknownError,
    error_code_from_exception_type,
    exception_type_from_error_code,
)

OK = int(Code.OK)
CANCELLED = int(Code.CANCELLED)
UNKNOWN = int(Code.UNKNOWN)
INVALID_ARGUMENT = int(Code.INVALID_ARGUMENT)
DEADLINE_EXCEEDED = int(Code.DEADLINE_EXCEEDED)
NOT_FOUND = int(Code.NOT_FOUND)
ALREADY_EXISTS = int(Code.ALREADY_EXISTS)
PERMISSION_DENIED = int(Code.PERMISSION_DENIED)
RESOURCE_EXHAUSTED = int(Code.RESOURCE_EXHAUSTED)
FAILED_PRECONDITION = int(Code.FAILED_PRECONDITION)
ABORTED = int(Code.ABORTED)
OUT_OF_RANGE = int(Code.OUT_OF_RANGE)
UNIMPLEMENTED = int(Code.UNIMPLEMENTED)
INTERNAL = int(Code.INTERNAL)
UNAVAILABLE = int(Code.UNAVAILABLE)
DATA_LOSS = int(Code.DATA_LOSS)
UNAUTHENTICATED = int(Code.UNAUTHENTICATED)

__all__ = [
    "ABORTED",
    "ALREADY_EXISTS",
    "CANCELLED",
    "DATA_LOSS",
    "DEADLINE_EXCEEDED",
    "FAILED_PRECONDITION",
    "INTERNAL",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "OK",
    "OUT_OF_RANGE",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "UNAUTHENTICATED",
    "UNAVAILABLE",
    "UNIMPLEMENTED",
    "UNKNOWN",
    "AbortedError",
    "AlreadyExistsError",
    "CancelledError",
    "DataLossError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "OpError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownError",
    "error_code_from_exception_type",
    "exception_type_from_error_code",
    "raise_exception_on_not_ok_status",
]


@contextmanager
def raise_exception_on_not_ok_status() -> Iterator[None]:
    """Does nothing: errors are raised where they happen; for programs of TensorFlow's first years.

    Yields:
        None: there is no status to hand on.
    """
    yield
