"""Status codes and the exceptions that carry them, with TensorFlow's names and numbers.

This module has the classes that all others raise, their conversion to and from (code, text), and
the error for a missing package. The mapping to gRPC is in `transport`.
"""

from __future__ import annotations

import enum
import importlib.util
from typing import Any


class Code(enum.IntEnum):
    """Canonical status codes; the numbers are those of gRPC and of TensorFlow's error_codes."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class OpError(Exception):
    """A failed operation. Subclasses are chosen by status code.

    Args:
        node_def: The NodeDef (or name) of the failing node, if known.
        op: The `Operation` that failed, if the client can name it.
        message: What was asked, the offending values, what to do.
        error_code: The status code, if it is not the class's.
    """

    error_code: int = Code.UNKNOWN

    def __init__(
        self, node_def: Any = None, op: Any = None, message: str = "", error_code: Any = None
    ) -> None:
        super().__init__(message)
        if error_code is not None:
            self.error_code = int(error_code)
        self.node_def = node_def
        self.op = op
        self.message = message
        self.located = False

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None, None, self.message)

    def at(self, where: str) -> OpError:
        """Appends the place of the failure to the message, once; the innermost place wins."""
        if not self.located:
            self.message = f"{self.message}\n\t {where}"
            self.args = (self.message,)
            self.located = True
        return self


class CancelledError(OpError):
    """The step or session was cancelled."""

    error_code = Code.CANCELLED


class UnknownError(OpError):
    """A failure without a better class, such as an exception of an unexpected type."""

    error_code = Code.UNKNOWN


class InvalidArgumentError(OpError):
    """An argument has a wrong value, shape or dtype."""

    error_code = Code.INVALID_ARGUMENT


class DeadlineExceededError(OpError):
    """Something took longer than its deadline."""

    error_code = Code.DEADLINE_EXCEEDED


class NotFoundError(OpError):
    """A named thing (node, task, file, resource) does not exist."""

    error_code = Code.NOT_FOUND


class AlreadyExistsError(OpError):
    """An object to be created already exists."""

    error_code = Code.ALREADY_EXISTS


class PermissionDeniedError(OpError):
    """The caller may not do this."""

    error_code = Code.PERMISSION_DENIED


class ResourceExhaustedError(OpError):
    """Memory, slots, queue room or a limit is used up."""

    error_code = Code.RESOURCE_EXHAUSTED


class FailedPreconditionError(OpError):
    """The system is not in the state that the operation needs, e.g. an uninitialised variable."""

    error_code = Code.FAILED_PRECONDITION


class AbortedError(OpError):
    """The operation was ended by a concurrent one or by the failure of a peer."""

    error_code = Code.ABORTED


class OutOfRangeError(OpError):
    """The end of the data was reached."""

    error_code = Code.OUT_OF_RANGE


class UnimplementedError(OpError):
    """No such operation, or no kernel for this device and dtype."""

    error_code = Code.UNIMPLEMENTED


class InternalError(OpError):
    """An invariant of sparkflow itself was broken: a bug of ours."""

    error_code = Code.INTERNAL


class UnavailableError(OpError):
    """A peer cannot be reached at present."""

    error_code = Code.UNAVAILABLE


class DataLossError(OpError):
    """Data are corrupt or missing beyond recovery."""

    error_code = Code.DATA_LOSS


class UnauthenticatedError(OpError):
    """The caller showed no valid credentials."""

    error_code = Code.UNAUTHENTICATED


_BY_CODE: dict[int, type[OpError]] = {
    cls.error_code: cls
    for cls in (
        CancelledError,
        UnknownError,
        InvalidArgumentError,
        DeadlineExceededError,
        NotFoundError,
        AlreadyExistsError,
        PermissionDeniedError,
        ResourceExhaustedError,
        FailedPreconditionError,
        AbortedError,
        OutOfRangeError,
        UnimplementedError,
        InternalError,
        UnavailableError,
        DataLossError,
        UnauthenticatedError,
    )
}


def exception_type_from_error_code(code: int) -> type[OpError]:
    """Returns the exception class of a status code; `UnknownError` for unknown codes."""
    return _BY_CODE.get(code, UnknownError)


def error_code_from_exception_type(cls: type[BaseException]) -> Code:
    """Returns the status code of an exception class; UNKNOWN for classes that are not `OpError`."""
    return Code(cls.error_code) if issubclass(cls, OpError) else Code.UNKNOWN


def from_status(code: int, message: str) -> OpError:
    """Returns the exception for a received status, its text unchanged."""
    error = exception_type_from_error_code(code)(message=message)
    error.located = True
    return error


def to_status(error: BaseException) -> tuple[Code, str]:
    """Returns the (code, text) of any exception, as sent over the wire."""
    if isinstance(error, OpError):
        return Code(error.error_code), error.message
    if isinstance(error, MemoryError):
        return Code.RESOURCE_EXHAUSTED, f"out of memory: {error}"
    return Code.UNKNOWN, f"{type(error).__name__}: {error}"


def missing_package(what: str, package: str, extra: str, instead: str = "") -> ModuleNotFoundError:
    """Returns the error for a package of an extra that is not installed.

    Args:
        what: What needs the package; the beginning of the sentence.
        package: The name under which it is imported.
        extra: Our extra that installs it.
        instead: The alternative without it.
    """
    return ModuleNotFoundError(
        f"{what} needs {package}, which is not installed: pip install 'sparkflow-ml[{extra}]'"
        + (f", or {instead}" if instead else ""),
        name=package,
    )


def require_package(what: str, package: str, extra: str, instead: str = "") -> None:
    """Checks that a package can be imported, without importing it; see `missing_package`.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    if importlib.util.find_spec(package) is None:
        raise missing_package(what, package, extra, instead)
