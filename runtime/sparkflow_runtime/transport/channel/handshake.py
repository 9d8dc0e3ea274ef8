"""The words with which two tasks open a tensor channel. No socket is touched here.

    dialler                                                     listener
    preamble, HELLO (nonce, incarnations, task names)   ->
                                                        <-      preamble, CHALLENGE (nonce)
    PROOF (mac)                                         ->
                                                        <-      WELCOME (mac, incarnation, task)

In place of a message the listener may send REFUSAL (code, text), and then closes. A preamble is a
magic number and a version; its form and that of a message (kind, size, body) are the same for ever,
so that any two versions understand each other's refusals. A newer minor version may append to
bodies.

The macs are HMAC-SHA256 with the job's token over a label for the direction and every byte said
before, in which are both nonces, both incarnations and all names. So the token never travels, the
listener says nothing of itself before the dialler has proved that it knows the token, and what was
said to one task is of no use with another. They prove who opened a channel. What follows is neither
encrypted nor authenticated, which is what TLS below it is for, but sealed against faults with
numbers that come from the same token and words, see `seals`. Within TLS the two may agree that what
follows is records with keys of the same origin, see `records`.

Both sides are generators that yield the bytes to write, or the number of bytes that they want to be
sent next, which is never more than `MAX_BODY_BYTES`.
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
"""Its first byte begins neither text nor TLS."""
VERSION: Final = (2, 2)
"""Major: others are refused. Minor: newer ones are accepted, who know what we cannot."""
TAKES_BUNDLES: Final = 1
"""From this minor version on a call may bring a bundle along."""
REPEATS: Final = 2
"""From this one on a call may be repeated before it is answered."""
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
"""What a TLS client begins with."""
_HAS_TOKEN: Final = 1
_WANTS_INCARNATION: Final = 2
_WANTS_RECORDS: Final = 4
_RECORDS: Final = b"\1"
"""Follows the listener's name where it wants them, too."""
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
    """Who is at this end, what it knows, and how it dials others.

    Attributes:
        task: `/job:ps/replica:0/task:0`; "" for a master without a task.
        incarnation: A number that differs each time the task starts, from 0 to 2**64 - 1.
        token: The job's token; None without one.
        tls: For TLS over TCP; None without.
        transport: The way that it takes to others.
        arena: Its memory that others may read; None to share none.

    Raises:
        InvalidArgumentError: The name or the number cannot go into a message.
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
    """What a side knows when the channel is open.

    Attributes:
        task: Of the other side, as in `Self`.
        incarnation: The same.
        seals: The numbers with which what we send, and what we receive, may be sealed, see `seals`.
        keys: Of our records and of theirs; None where what follows is no records.
        minor: The minor version that the other side speaks.
    """

    task: str
    incarnation: int
    seals: tuple[int, int]
    keys: tuple[bytes, bytes] | None
    minor: int = 0


Dialogue: TypeAlias = Generator["bytes | int", bytes, Agreed]
"""One side; returns what was agreed, or raises the OpError that ends it."""


def dialler(
    me: Self,
    expected_task: str,
    expected_incarnation: int | None = None,
    peer: str = "The peer",
    records: bool = False,
) -> Dialogue:
    """The side that opens the channel.

    Args:
        me: Who dials.
        expected_task: The task that must answer.
        expected_incarnation: Its incarnation; None for any.
        peer: How errors name the other side.
        records: Whether records may follow. Only within TLS: their keys come of what is said.

    Raises:
        FailedPreconditionError: Another task answers, another version, or no task at all.
        AbortedError: The task answers in another incarnation.
        UnauthenticatedError: The two do not know the same token.
        OpError: Whatever else the other side refuses with.
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
    """The side that accepts the channel. The dialler is told what is raised, a stranger is not.

    Args:
        me: Who listens.
        records: See `dialler`.

    Raises:
        FailedPreconditionError: The dialler speaks another version or protocol, or wants another
            task.
        AbortedError: The dialler wants another incarnation of this task.
        UnauthenticatedError: The dialler does not know the token.
        InvalidArgumentError: What it says is malformed.
    """
    peer = "The caller"
    theirs = yield _PREAMBLE.size
    if theirs.startswith(_TLS):
        yield preamble()  # enough for its TLS to say what is wrong, instead of that we went away
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
    """What either side says first."""
    return _PREAMBLE.pack(MAGIC, *VERSION)


def refusal(error: OpError) -> bytes:
    """The message that ends the dialogue with an error."""
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
    """The first number of the seals, and the key, of what the dialler and the listener send."""
    dialler, listener = _FIRSTS.unpack_from(_mac(token, _SEALS, said))
    return (
        (dialler, _mac(token, _KEY_OF_DIALLER, said)),
        (listener, _mac(token, _KEY_OF_LISTENER, said)),
    )


def _mac(token: str | None, label: bytes, said: bytes) -> bytes:
    """The proof of who said all that; without a token it proves only that all of it arrived."""
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
    """The minor version of who speaks the same major one."""
    _, major, minor = _PREAMBLE.unpack(theirs)
    if major != VERSION[0]:
        raise FailedPreconditionError(
            message=f"{peer} speaks version {major}.{minor} of the tensor channel, this task "
            f"{VERSION[0]}.{VERSION[1]}: run the same version of sparkflow on all tasks"
        )
    return int(minor)


def _read(expected: _Kind, peer: str) -> Generator[bytes | int, bytes, bytes]:
    """The body of the next message.

    Raises:
        OpError: It is a refusal.
        InvalidArgumentError: It is none of what may come now.
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
    """The text without what could play tricks with a terminal: it may come from anybody."""
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
    """Takes a body apart; what is there beyond the last field belongs to newer versions."""

    def __init__(self, body: bytes, peer: str) -> None:
        self._body = body
        self._peer = peer
        self._at = 0

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        taken = self._body[self._at : self._at + size]
        if len(taken) < size:
            raise InvalidArgumentError(
                message=f"{self._peer} sent a malformed handshake: a message of "
                f"{len(self._body)} bytes where at least {self._at + size} were expected"
            )
        self._at += size
        return taken

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        """The fields of a struct."""
        return form.unpack(self.take(form.size))

    def name(self) -> str:
        """A task's name."""
        (size,) = self.unpack(_NAME_SIZE)
        body = self.take(size)
        try:
            name = body.decode()
        except UnicodeDecodeError:
            name = "\0"
        if size > MAX_NAME_BYTES or not name.isprintable():
            raise InvalidArgumentError(
                message=f"{self._peer} sent a malformed handshake: {body[:80]!r} is no task's name"
            )
        return name

    def rest(self) -> bytes:
        """All that was not taken yet."""
        return self._body[self._at :]
