"""The handshake with which two tasks open a tensor channel. No socket is touched here.

    dialler                                                     listener
    preamble, HELLO (nonce, incarnations, task names)   ->
                                                        <-      preamble, CHALLENGE (nonce)
    PROOF (mac)                                         ->
                                                        <-      WELCOME (mac, incarnation, task)

In place of a message the listener may send REFUSAL (code, text), and then closes. A preamble is a
magic number and a version; its format and a message's (kind, size, body) never change, so that any
two versions understand each other's refusals. A newer minor version may append to bodies.

The macs are HMAC-SHA256 with the job's token over a label for the direction and every byte
exchanged so far, which includes both nonces, both incarnations and all names. So the token never
travels, the listener reveals nothing about itself before the dialler has proved that it knows the
token, and a transcript cannot be replayed to another task. The macs prove who opened a channel.
What follows is neither encrypted nor authenticated, which is the purpose of TLS below it, but
protected against faults by checksums seeded from the same token and transcript, see `seals`. Within
TLS the two sides may agree to continue with encrypted records whose keys have the same origin, see
`records`.

Both sides are generators that yield the bytes to write, or the number of bytes to read next, which
is at most `MAX_BODY_BYTES`.
"""

from __future__ import annotations

import enum
import hmac
import secrets
import struct
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from sparkflow_runtime.errors import (
    AbortedError,
    Code,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    UnauthenticatedError,
    from_status,
    to_status,
)

if TYPE_CHECKING:
    from sparkflow_runtime.device.shared_memory import SharedArena
    from sparkflow_runtime.security import Tls
    from sparkflow_runtime.transport.channel.address import Transport

MAGIC: Final = b"\x93sparkfl"
"""Neither text nor TLS begins with its first byte."""
VERSION: Final = (2, 2)
"""A different major version is refused; a newer minor version is accepted, and adapts to ours."""
TAKES_BUNDLES: Final = 1
"""From this minor version on, a call may carry a bundle."""
REPEATS: Final = 2
"""From this minor version on, a call may be repeated before it is answered."""
MAX_BODY_BYTES: Final = 4096
MAX_TEXT_BYTES: Final = 2048
MAX_NAME_BYTES: Final = 512
NONCE_BYTES: Final = 32
MAC_BYTES: Final = 32

_PREAMBLE: Final = struct.Struct(f"!{len(MAGIC)}sHH")
_MESSAGE: Final = struct.Struct("!BH")
_HELLO: Final = struct.Struct(f"!{NONCE_BYTES}sBQQ")
_INCARNATION: Final = struct.Struct("!Q")
_NAME_SIZE: Final = struct.Struct("!H")
_TLS: Final = b"\x16\x03"
"""The first byte of a TLS connection."""
_HAS_TOKEN: Final = 1
_WANTS_INCARNATION: Final = 2
_WANTS_RECORDS: Final = 4
_RECORDS: Final = b"\1"
"""Appended to the listener's name if it wants records, too."""
_DIALLER: Final = b"sparkflow tensor channel: dialler\0"
_LISTENER: Final = b"sparkflow tensor channel: listener\0"
_SEALS: Final = b"sparkflow tensor channel: seals\0"
_KEY_OF_DIALLER: Final = b"sparkflow tensor channel: key of the dialler's records\0"
_KEY_OF_LISTENER: Final = b"sparkflow tensor channel: key of the listener's records\0"
_FIRSTS: Final = struct.Struct("<II")


class _Kind(enum.IntEnum):
    HELLO = 1
    CHALLENGE = 2
    PROOF = 3
    WELCOME = 4
    REFUSAL = 5


@dataclass(frozen=True, slots=True)
class Self:
    """This end's identity, credentials, and way of dialling others.

    Attributes:
        task: `/job:ps/replica:0/task:0`; "" for a master without a task.
        incarnation: A number that differs each time the task starts, from 0 to 2**64 - 1.
        token: The job's token; None without one.
        tls: For TLS over TCP; None without.
        transport: The transport that it uses to others.
        arena: Its memory that other tasks may read; None to share none.

    Raises:
        InvalidArgumentError: The name or the number does not fit into a message.
    """

    task: str = ""
    incarnation: int = 0
    token: str | None = field(default=None, repr=False)
    tls: Tls | None = field(default=None, repr=False)
    transport: Transport = "auto"
    arena: SharedArena | None = None

    def __post_init__(self) -> None:
        _export_name(self.task)
        _check_incarnation(self.incarnation)


class Agreed(NamedTuple):
    """The result of the handshake, as one side knows it.

    Attributes:
        task: The other side's task, as in `Self`.
        incarnation: The other side's incarnation.
        seals: The first numbers of the checksums of what we send and of what we receive, see
            `seals`.
        keys: The keys of our records and of theirs; None if no records follow.
        minor: The minor version that the other side speaks.
    """

    task: str
    incarnation: int
    seals: tuple[int, int]
    keys: tuple[bytes, bytes] | None
    minor: int = 0


Dialogue: TypeAlias = Generator["bytes | int", bytes, Agreed]
"""One side of the handshake; returns the result, or raises the OpError that ends it."""


def dialler(
    me: Self,
    expected_task: str,
    expected_incarnation: int | None = None,
    peer: str = "The peer",
    records: bool = False,
) -> Dialogue:
    """Runs the side that opens the channel.

    Args:
        me: The dialling task.
        expected_task: The task that must answer.
        expected_incarnation: Its incarnation; None for any.
        peer: The other side's name in errors.
        records: Whether records may follow. Only within TLS: their keys are derived from the
            transcript.

    Raises:
        FailedPreconditionError: Another task or version answers, or no task at all.
        AbortedError: The task answers in another incarnation.
        UnauthenticatedError: The tokens differ.
        OpError: Any other refusal by the other side.
    """
    wanted = expected_incarnation or 0
    _check_incarnation(wanted)
    flags = 0 if me.token is None else _HAS_TOKEN
    flags |= 0 if expected_incarnation is None else _WANTS_INCARNATION
    flags |= _WANTS_RECORDS if records else 0
    hello = _HELLO.pack(secrets.token_bytes(NONCE_BYTES), flags, me.incarnation, wanted)
    hello += _export_name(me.task) + _export_name(expected_task)
    said = preamble() + _message(_Kind.HELLO, hello)
    yield said
    theirs = yield _PREAMBLE.size
    _check_magic(theirs, peer)
    minor = _check_version(theirs, peer)
    said += theirs
    challenge = yield from _read(_Kind.CHALLENGE, peer)
    _Fields(challenge, peer).take(NONCE_BYTES)
    said += _message(_Kind.CHALLENGE, challenge)
    proof = _message(_Kind.PROOF, _mac(me.token, _DIALLER, said))
    yield proof
    said += proof
    fields = _Fields((yield from _read(_Kind.WELCOME, peer)), peer)
    mac = fields.take(MAC_BYTES)
    if not hmac.compare_digest(mac, _mac(me.token, _LISTENER, said + fields.rest())):
        raise UnauthenticatedError(message=f"{peer} does not know the job's token")
    (incarnation,) = fields.unpack(_INCARNATION)
    task = fields.name()
    if task != expected_task:
        raise FailedPreconditionError(
            message=f"{peer} is {task}: two tasks, or two clusters, have the same address"
        )
    if expected_incarnation not in (None, incarnation):
        raise AbortedError(
            message=f"{peer} was restarted: incarnation {expected_incarnation} was expected, "
            f"{incarnation} answers"
        )
    are_records = records and fields.rest()[:1] == _RECORDS
    dialler, listener = _secrets(me.token, said)
    keys = (dialler[1], listener[1]) if are_records else None
    return Agreed(task, incarnation, (dialler[0], listener[0]), keys, minor)


def listener(me: Self, records: bool = False) -> Dialogue:
    """Runs the side that accepts the channel. The dialler is sent the error, a stranger is not.

    Args:
        me: The listening task.
        records: See `dialler`.

    Raises:
        FailedPreconditionError: The dialler speaks another version or protocol, or wants another
            task.
        AbortedError: The dialler wants another incarnation of this task.
        UnauthenticatedError: The dialler does not know the token.
        InvalidArgumentError: A message is malformed.
    """
    peer = "The caller"
    theirs = yield _PREAMBLE.size
    if theirs.startswith(_TLS):
        yield preamble()  # enough for its TLS to report what is wrong, instead of a lost connection
    _check_magic(theirs, peer)
    yield preamble()
    try:
        minor = _check_version(theirs, peer)
        agreed = yield from _accept(me, theirs, peer, records)
        return agreed._replace(minor=minor)
    except OpError as error:
        yield refusal(error)
        raise


def preamble() -> bytes:
    """Returns what either side sends first."""
    return _PREAMBLE.pack(MAGIC, *VERSION)


def refusal(error: OpError) -> bytes:
    """Returns the message that ends the handshake with an error."""
    code, text = to_status(error)
    return _message(_Kind.REFUSAL, bytes([code]) + text.encode("utf-8", "replace")[:MAX_TEXT_BYTES])


def _accept(me: Self, theirs: bytes, peer: str, records: bool) -> Dialogue:
    hello = yield from _read(_Kind.HELLO, peer)
    fields = _Fields(hello, peer)
    _, flags, incarnation, wanted = fields.unpack(_HELLO)
    task, expected_task = fields.name(), fields.name()
    if (me.token is None) == bool(flags & _HAS_TOKEN):
        raise UnauthenticatedError(
            message="The job's token is missing"
            if me.token is not None
            else f"{peer} has a token and this task has none, so it cannot prove who it is"
        )
    challenge = _message(_Kind.CHALLENGE, secrets.token_bytes(NONCE_BYTES))
    yield challenge
    said = theirs + _message(_Kind.HELLO, hello) + preamble() + challenge
    proof = yield from _read(_Kind.PROOF, peer)
    if not hmac.compare_digest(proof[:MAC_BYTES], _mac(me.token, _DIALLER, said)):
        raise UnauthenticatedError(message="The job's token is wrong")
    if expected_task != me.task:
        raise FailedPreconditionError(
            message=f"This is {me.task or 'no task'}, not {expected_task or 'no task'}: two tasks, "
            "or two clusters, have the same address"
        )
    if flags & _WANTS_INCARNATION and wanted != me.incarnation:
        raise AbortedError(
            message=f"{me.task} was restarted: incarnation {wanted} was expected, "
            f"{me.incarnation} answers"
        )
    said += _message(_Kind.PROOF, proof)
    dialler, listener = _secrets(me.token, said)
    are_records = records and bool(flags & _WANTS_RECORDS)
    rest = _INCARNATION.pack(me.incarnation) + _export_name(me.task)
    rest += _RECORDS if are_records else b""
    yield _message(_Kind.WELCOME, _mac(me.token, _LISTENER, said + rest) + rest)
    keys = (listener[1], dialler[1]) if are_records else None
    return Agreed(task, incarnation, (listener[0], dialler[0]), keys)


def _secrets(token: str | None, said: bytes) -> tuple[tuple[int, bytes], tuple[int, bytes]]:
    """Returns the first checksum number and the key of each direction, the dialler's first."""
    dialler, listener = _FIRSTS.unpack_from(_mac(token, _SEALS, said))
    return (
        (dialler, _mac(token, _KEY_OF_DIALLER, said)),
        (listener, _mac(token, _KEY_OF_LISTENER, said)),
    )


def _mac(token: str | None, label: bytes, said: bytes) -> bytes:
    """Returns the mac of the transcript; without a token it proves only that all of it arrived."""
    return hmac.digest((token or "").encode("utf-8", "surrogatepass"), label + said, "sha256")


def _message(kind: _Kind, body: bytes) -> bytes:
    return _MESSAGE.pack(kind, len(body)) + body


def _check_magic(theirs: bytes, peer: str) -> None:
    if not theirs.startswith(MAGIC):
        raise FailedPreconditionError(
            message=f"{peer} does not speak the tensor channel's protocol (it begins with "
            f"{theirs[: len(MAGIC)]!r}): is something else at that address?"
        )


def _check_version(theirs: bytes, peer: str) -> int:
    """Returns the minor version of a peer that speaks the same major version."""
    _, major, minor = _PREAMBLE.unpack(theirs)
    if major != VERSION[0]:
        raise FailedPreconditionError(
            message=f"{peer} speaks version {major}.{minor} of the tensor channel, this task "
            f"{VERSION[0]}.{VERSION[1]}: run the same version of sparkflow on all tasks"
        )
    return int(minor)


def _read(expected: _Kind, peer: str) -> Generator[bytes | int, bytes, bytes]:
    """Reads the body of the next message.

    Raises:
        OpError: The message is a refusal.
        InvalidArgumentError: The message is not one expected at this point.
    """
    kind, size = _MESSAGE.unpack((yield _MESSAGE.size))
    refused = kind == _Kind.REFUSAL and expected in (_Kind.CHALLENGE, _Kind.WELCOME)
    if (kind != expected and not refused) or size > MAX_BODY_BYTES:
        raise InvalidArgumentError(
            message=f"{peer} sent a malformed handshake: kind {kind} with {size} bytes where "
            f"{expected.name} ({int(expected)}) with at most {MAX_BODY_BYTES} was expected"
        )
    body = (yield size) if size else b""
    if refused:
        text = _printable(body[1:].decode("utf-8", "replace"))
        raise from_status(body[0] if body else Code.UNKNOWN, f"{peer} refuses the channel: {text}")
    return body


def _printable(text: str) -> str:
    """Returns the text without terminal control characters: it may be anybody's."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _export_name(task: str) -> bytes:
    body = task.encode("utf-8", "replace")
    if len(body) > MAX_NAME_BYTES or not task.isprintable():
        raise InvalidArgumentError(
            message=f"The task name {task[:80]!r} has more than {MAX_NAME_BYTES} bytes or "
            "characters that cannot be printed"
        )
    return _NAME_SIZE.pack(len(body)) + body


def _check_incarnation(incarnation: int) -> None:
    if not 0 <= incarnation < 1 << 64:
        raise InvalidArgumentError(
            message=f"The incarnation {incarnation} is not between 0 and 2**64 - 1"
        )


class _Fields:
    """Parses a body; bytes beyond the last field belong to newer versions."""

    def __init__(self, body: bytes, peer: str) -> None:
        self._body = body
        self._peer = peer
        self._at = 0

    def take(self, size: int) -> bytes:
        """Reads the next `size` bytes."""
        taken = self._body[self._at : self._at + size]
        if len(taken) < size:
            raise InvalidArgumentError(
                message=f"{self._peer} sent a malformed handshake: a message of "
                f"{len(self._body)} bytes where at least {self._at + size} were expected"
            )
        self._at += size
        return taken

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        """Reads the fields of a struct."""
        return form.unpack(self.take(form.size))

    def name(self) -> str:
        """Reads a task's name."""
        (size,) = self.unpack(_NAME_SIZE)
        body = self.take(size)
        try:
            name = body.decode()
        except UnicodeDecodeError:
            name = "\0"
        if size > MAX_NAME_BYTES or not name.isprintable():
            raise InvalidArgumentError(
                message=f"{self._peer} sent a malformed handshake: {body[:80]!r} names no task"
            )
        return name

    def rest(self) -> bytes:
        """Reads the rest of the body."""
        return self._body[self._at :]
