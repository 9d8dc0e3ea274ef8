"""Status codes and the exceptions that carry them, with TensorFlow's names and numbers.

What lives here: the classes every other room raises and their round trip through (code, text), and
what is said about a package that is not installed.
What does not: mapping to gRPC, which is transport's business.
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
        node_def: The NodeDef (or name) of the failing node, where known.
        op: The `Operation` that failed, where the client can name it.
        message: What was asked, the offending values, what to do.
        error_code: The status code, where it is not the class's.
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
    """A failure without a better class, for instance an exception of an unexpected type."""

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
    """A thing to be created exists already."""

    error_code = Code.ALREADY_EXISTS


class PermissionDeniedError(OpError):
    """The caller may not do this."""

    error_code = Code.PERMISSION_DENIED


class ResourceExhaustedError(OpError):
    """Memory, slots, queue room or a limit is used up."""

    error_code = Code.RESOURCE_EXHAUSTED


class FailedPreconditionError(OpError):
    """The system is not in the state the operation needs, e.g. an uninitialised variable."""

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
    """The exception class of a status code; `UnknownError` for codes outside the table."""
    return _BY_CODE.get(code, UnknownError)


def error_code_from_exception_type(cls: type[BaseException]) -> Code:
    """The status code of an exception class; UNKNOWN for classes that are not `OpError`."""
    return Code(cls.error_code) if issubclass(cls, OpError) else Code.UNKNOWN


def from_status(code: int, message: str) -> OpError:
    """The exception for a status that arrived from elsewhere, its text unchanged."""
    error = exception_type_from_error_code(code)(message=message)
    error.located = True
    return error


def to_status(error: BaseException) -> tuple[Code, str]:
    """The (code, text) of any exception, as it goes over the wire."""
    if isinstance(error, OpError):
        return Code(error.error_code), error.message
    if isinstance(error, MemoryError):
        return Code.RESOURCE_EXHAUSTED, f"out of memory: {error}"
    return Code.UNKNOWN, f"{type(error).__name__}: {error}"


def missing_package(what: str, package: str, extra: str, instead: str = "") -> ModuleNotFoundError:
    """The error to raise where a package of an extra is not installed.

    Args:
        what: What needs the package; the beginning of the sentence.
        package: Its name, as it is imported.
        extra: Ours that installs it.
        instead: What one can do without it.
    """
    return ModuleNotFoundError(
        f"{what} needs {package}, which is not installed: pip install 'sparkflow-ml[{extra}]'"
        + (f", or {instead}" if instead else ""),
        name=package,
    )


def require_package(what: str, package: str, extra: str, instead: str = "") -> None:
    """Makes sure that a package can be imported, without importing it.

    The arguments are those of `missing_package`.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    if importlib.util.find_spec(package) is None:
        raise missing_package(what, package, extra, instead)
