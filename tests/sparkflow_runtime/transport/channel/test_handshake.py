"""The dialogue without sockets: both sides are generators, and the test passes the bytes."""

import itertools
import struct

import pytest
from hypothesis import given, strategies as st

from sparkflow_runtime.errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    UnauthenticatedError,
    UnknownError,
)
from sparkflow_runtime.transport.channel import handshake
from sparkflow_runtime.transport.channel.handshake import Agreed, Dialogue, Self
from sparkflow_runtime.transport.channel.records import KEY_BYTES

PS = "/job:ps/replica:0/task:0"
WORKER = "/job:worker/replica:0/task:1"
TOKEN = "t" * 64


class Side:
    """One dialogue, fed with bytes as they arrive; its output is in `said`."""

    def __init__(self, words: Dialogue) -> None:
        self._words = words
        self._heard = b""
        self.said = b""
        self.result: Agreed | None = None
        self.error: OpError | None = None
        self.most_wanted = 0
        self._wish: bytes | int = b""
        self._next(first=True)

    def hear(self, data: bytes) -> None:
        self._heard += data
        while isinstance(self._wish, int) and len(self._heard) >= self._wish and not self.is_over:
            piece, self._heard = self._heard[: self._wish], self._heard[self._wish :]
            self._next(piece)

    @property
    def is_over(self) -> bool:
        return self.result is not None or self.error is not None

    def take(self) -> bytes:
        said, self.said = self.said, b""
        return said

    def _next(self, piece: bytes = b"", first: bool = False) -> None:
        try:
            self._wish = next(self._words) if first else self._words.send(piece)
            while isinstance(self._wish, bytes):
                self.said += self._wish
                self._wish = next(self._words)
            assert self._wish > 0
            self.most_wanted = max(self.most_wanted, self._wish)
        except StopIteration as end:
            self.result = end.value
        except OpError as error:
            self.error = error


def dialler(
    token: str | None = TOKEN,
    expected: str = PS,
    expected_incarnation: int | None = None,
    task: str = WORKER,
) -> Side:
    return Side(handshake.dialler(Self(task, 11, token), expected, expected_incarnation, "The ps"))


def listener(token: str | None = TOKEN, task: str = PS, incarnation: int = 22) -> Side:
    return Side(handshake.listener(Self(task, incarnation, token)))


def talk(dialling: Side, listening: Side) -> tuple[Side, Side]:
    for _ in range(10):
        listening.hear(dialling.take())
        dialling.hear(listening.take())
    assert dialling.is_over
    assert listening.is_over
    return dialling, listening


@pytest.mark.parametrize("token", [TOKEN, "", None, "é\ud800"])
@pytest.mark.parametrize("incarnation", [None, 22])
def test_both_sides_learn_who_the_other_one_is(token: str | None, incarnation: int | None) -> None:
    dialling, listening = talk(dialler(token, expected_incarnation=incarnation), listener(token))
    assert dialling.result[:2] == (PS, 22)
    assert listening.result[:2] == (WORKER, 11)


def test_a_master_without_a_task_has_no_name() -> None:
    dialling, listening = talk(dialler(task=""), listener())
    assert dialling.result[:2] == (PS, 22)
    assert listening.result[:2] == ("", 11)


def test_the_token_never_travels_and_nothing_is_said_twice() -> None:
    transcripts = []
    for _ in range(2):
        dialling, listening = dialler(), listener()
        said = dialling.take()
        listening.hear(said)
        answer = listening.take()
        dialling.hear(answer)
        proof = dialling.take()
        listening.hear(proof)
        transcripts.append((said, answer, proof, listening.take()))
        for words in transcripts[-1]:
            assert TOKEN.encode() not in words
    assert all(one != two for one, two in zip(*transcripts, strict=True))


def test_the_listener_says_nothing_of_itself_before_the_dialler_has_proved_who_it_is() -> None:
    dialling, listening = dialler("guess"), listener()
    listening.hear(dialling.take())
    challenge = listening.take()
    dialling.hear(challenge)
    listening.hear(dialling.take())
    for words in (challenge, listening.take()):
        assert PS.encode() not in words
        assert struct.pack("!Q", 22) not in words


def refusal(dialling: Side, listening: Side, kind: type[OpError], here: str, there: str) -> None:
    talk(dialling, listening)
    assert type(listening.error) is kind
    assert str(listening.error) == here
    assert type(dialling.error) is kind
    assert str(dialling.error) == there


def told(kind: type[OpError], dialling: Side, listening: Side, text: str) -> None:
    """The listener refuses with a text, and the dialler gets the same class and text."""
    refusal(dialling, listening, kind, text, f"The ps refuses the channel: {text}")


def test_a_wrong_token_is_refused_on_both_sides() -> None:
    told(UnauthenticatedError, dialler("wrong"), listener(), "The job's token is wrong")


def test_a_missing_token_is_refused_on_both_sides() -> None:
    told(UnauthenticatedError, dialler(None), listener(), "The job's token is missing")


def test_a_listener_without_a_token_cannot_prove_itself() -> None:
    told(
        UnauthenticatedError,
        dialler(),
        listener(None),
        "The caller has a token and this task has none, so it cannot prove who it is",
    )


def test_another_task_is_refused() -> None:
    told(
        FailedPreconditionError,
        dialler(expected="/job:ps/replica:0/task:1"),
        listener(),
        "This is /job:ps/replica:0/task:0, not /job:ps/replica:0/task:1: two tasks, or two "
        "clusters, have the same address",
    )


def test_another_incarnation_is_refused() -> None:
    told(
        AbortedError,
        dialler(expected_incarnation=0),
        listener(),
        "/job:ps/replica:0/task:0 was restarted: incarnation 0 was expected, 22 answers",
    )


@pytest.mark.parametrize("version", [(1, 0), (3, 0)])
def test_another_major_version_is_refused_on_both_sides(
    version: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "VERSION", version)
    other = dialler().take()
    monkeypatch.undo()
    listening = listener()
    listening.hear(other)
    assert type(listening.error) is FailedPreconditionError
    text = (
        f"speaks version {version[0]}.{version[1]} of the tensor channel, this task "
        f"{handshake.VERSION[0]}.{handshake.VERSION[1]}: run the same version of sparkflow on "
        "all tasks"
    )
    assert str(listening.error) == f"The caller {text}"
    answer = listening.take()
    assert text.encode() in answer  # also for a version that does not check ours first
    monkeypatch.setattr(handshake, "VERSION", version)
    other_listener = listener()
    other_listener.hear(dialler().take())
    monkeypatch.undo()
    dialling = dialler()
    dialling.hear(other_listener.take())
    assert type(dialling.error) is FailedPreconditionError
    assert str(dialling.error) == f"The ps {text}"


def test_both_sides_seal_with_the_same_numbers_and_no_two_channels_do() -> None:
    numbers: set[int] = set()
    for token in [TOKEN, None] * 20:
        dialling, listening = talk(dialler(token), listener(token))
        assert dialling.result is not None
        assert listening.result is not None
        assert dialling.result[2] == listening.result[2][::-1]
        numbers.update(dialling.result[2])
    assert len(numbers) == 80


@pytest.mark.parametrize("dials", [True, False])
@pytest.mark.parametrize("listens", [True, False])
def test_records_follow_where_both_sides_want_them(dials: bool, listens: bool) -> None:
    keys: set[bytes] = set()
    for token in (TOKEN, TOKEN, None):
        dialling = Side(handshake.dialler(Self(WORKER, 11, token), PS, records=dials))
        listening = Side(handshake.listener(Self(PS, 22, token), records=listens))
        talk(dialling, listening)
        assert dialling.result is not None
        assert listening.result is not None
        if not (dials and listens):
            assert dialling.result.keys is listening.result.keys is None
            continue
        assert dialling.result.keys is not None
        assert listening.result.keys == dialling.result.keys[::-1]
        keys.update(dialling.result.keys)
        assert all(len(key) == KEY_BYTES for key in keys)
        for key in keys:
            assert key not in dialling.said + listening.said
    assert len(keys) == (6 if dials and listens else 0)


def test_newer_minor_versions_are_accepted_on_either_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "VERSION", (2, 7))
    newer = dialler()
    monkeypatch.undo()
    dialling, listening = talk(newer, listener())
    assert dialling.result[:2] == (PS, 22)
    assert listening.result[:2] == (WORKER, 11)
    assert listening.result.minor == 7
    assert dialling.result.minor == handshake.VERSION[1] >= handshake.TAKES_BUNDLES


def test_a_newer_dialler_may_append_to_its_messages() -> None:
    listening = listener()
    hello = handshake._HELLO.pack(bytes(32), handshake._HAS_TOKEN, 11, 0)
    hello += _name(WORKER) + _name(PS) + b"more"
    said = handshake.preamble() + handshake._message(handshake._Kind.HELLO, hello)
    listening.hear(said)
    said += listening.take()
    mac = handshake._mac(TOKEN, handshake._DIALLER, said)
    listening.hear(handshake._message(handshake._Kind.PROOF, mac + b"more"))
    assert listening.result[:2] == (WORKER, 11)


def test_a_newer_listener_may_append_to_its_messages() -> None:
    dialling = dialler()
    said = dialling.take()
    answer = handshake.preamble()
    answer += handshake._message(handshake._Kind.CHALLENGE, bytes(32) + b"more")
    dialling.hear(answer)
    said += answer + dialling.take()
    rest = struct.pack("!Q", 22) + _name(PS) + b"more"
    mac = handshake._mac(TOKEN, handshake._LISTENER, said + rest)
    dialling.hear(handshake._message(handshake._Kind.WELCOME, mac + rest))
    assert dialling.result[:2] == (PS, 22)


def _name(task: str) -> bytes:
    return struct.pack("!H", len(task)) + task.encode()


def test_a_stranger_is_told_nothing() -> None:
    listening = listener()
    listening.hear(b"GET / HTTP/1.1\r\n\r\n")
    assert listening.take() == b""
    assert str(listening.error) == (
        "The caller does not speak the tensor channel's protocol (it begins with b'GET / HT'): is "
        "something else at that address?"
    )
    dialling = dialler()
    dialling.hear(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert type(dialling.error) is FailedPreconditionError
    assert str(dialling.error) == (
        "The ps does not speak the tensor channel's protocol (it begins with b'HTTP/1.1'): is "
        "something else at that address?"
    )


def test_a_message_too_long_is_refused_before_it_is_read() -> None:
    for side, kind in ((dialler(), handshake._Kind.CHALLENGE), (listener(), handshake._Kind.HELLO)):
        side.hear(handshake.preamble() + bytes([kind]) + b"\xff\xff")
        assert type(side.error) is InvalidArgumentError
        assert "with 65535 bytes" in str(side.error)
        assert side.most_wanted <= handshake.MAX_BODY_BYTES


def test_names_are_checked_on_both_sides() -> None:
    for name in ("x" * 513, "a\nb", "\x1b[2J"):
        with pytest.raises(InvalidArgumentError, match="more than 512 bytes or characters that"):
            Self(name, 1, None)
        with pytest.raises(InvalidArgumentError, match="more than 512 bytes or characters that"):
            next(handshake.dialler(Self(WORKER, 1, None), name))
    for incarnation in (-1, 1 << 64):
        with pytest.raises(InvalidArgumentError, match="not between 0 and 2\\*\\*64 - 1"):
            Self(PS, incarnation, None)


@pytest.mark.parametrize("name", [b"a\nb", b"\xff", b"x" * 513])
def test_a_name_that_is_none_is_refused(name: bytes) -> None:
    hello = handshake._HELLO.pack(bytes(32), handshake._HAS_TOKEN, 11, 0)
    hello += struct.pack("!H", len(name)) + name
    listening = listener()
    listening.hear(handshake.preamble() + handshake._message(handshake._Kind.HELLO, hello))
    assert type(listening.error) is InvalidArgumentError
    assert "names no task" in str(listening.error)


def test_a_refusal_cannot_play_tricks_with_a_terminal() -> None:
    dialling = dialler()
    error = UnknownError(message="\x1b[2Jgone\n" + "x" * 5000)
    dialling.hear(handshake.preamble() + handshake.refusal(error))
    assert type(dialling.error) is UnknownError
    text = str(dialling.error)
    assert text.startswith("The ps refuses the channel: ?[2Jgone?xxx")
    assert len(text) < 2100


@pytest.mark.parametrize("code", [0, 99, 255])
def test_a_refusal_without_a_known_code_is_an_unknown_error(code: int) -> None:
    dialling = dialler()
    dialling.hear(handshake.preamble() + b"\x05\x00\x03" + bytes([code]) + b"no")
    assert type(dialling.error) is UnknownError
    assert str(dialling.error) == "The ps refuses the channel: no"


def test_a_refusal_without_a_body_is_one() -> None:
    dialling = dialler()
    dialling.hear(handshake.preamble() + b"\x05\x00\x00")
    assert type(dialling.error) is UnknownError


# --------------------------------------------------------------------- what an attacker may do


def test_words_of_one_dialogue_are_of_no_use_in_another() -> None:
    first, victim = dialler(), listener()
    hello = first.take()
    victim.hear(hello)
    first.hear(victim.take())
    proof = first.take()
    victim.hear(proof)
    assert victim.result[:2] == (WORKER, 11)
    welcome = victim.take()
    again = listener()
    again.hear(hello)
    challenge = again.take()
    again.hear(proof)  # replayed
    assert type(again.error) is UnauthenticatedError
    impostor = dialler()
    impostor.take()
    impostor.hear(challenge)
    impostor.hear(welcome)  # replayed
    assert type(impostor.error) is UnauthenticatedError
    assert str(impostor.error) == "The ps does not know the job's token"


def test_a_proof_sent_back_is_no_proof() -> None:
    """An impostor without a token answers the dialler with its own mac."""
    dialling = dialler()
    dialling.take()
    challenge = handshake._message(handshake._Kind.CHALLENGE, bytes(32))
    dialling.hear(handshake.preamble() + challenge)
    mac = dialling.take()[3:]
    tail = struct.pack("!Q", 22) + _name(PS)
    dialling.hear(handshake._message(handshake._Kind.WELCOME, mac + tail))
    assert type(dialling.error) is UnauthenticatedError
    assert handshake._DIALLER != handshake._LISTENER  # nor would it be with the same words


def test_every_changed_byte_is_noticed() -> None:
    """A man in the middle flips one bit of any byte of the four messages."""
    sizes = [len(words) for words in _transcript()]
    for message, size in enumerate(sizes):
        for place in range(size):
            sides = [dialler(), listener()]
            for turn in range(4):
                speaker, hearer = sides[turn % 2], sides[1 - turn % 2]
                words = bytearray(speaker.take())
                if turn == message and place < len(words):
                    words[place] ^= 1
                hearer.hear(bytes(words))
            assert sides[0].result is None, (message, place)
            if message < 3:
                assert sides[1].result is None, (message, place)


def _transcript() -> list[bytes]:
    sides = [dialler(), listener()]
    words = []
    for turn in range(4):
        words.append(sides[turn % 2].take())
        sides[1 - turn % 2].hear(words[-1])
    return words


def test_a_byte_at_a_time_is_as_good_as_all_at_once() -> None:
    dialling, listening = dialler(), listener()
    for _ in range(3):
        for byte in dialling.take():
            listening.hear(bytes([byte]))
        for byte in listening.take():
            dialling.hear(bytes([byte]))
    assert dialling.result[:2] == (PS, 22)
    assert listening.result[:2] == (WORKER, 11)


def test_truncated_anywhere_a_side_waits_for_the_rest() -> None:
    for message, keep in itertools.product(range(4), range(200)):
        sides = [dialler(), listener()]
        for turn in range(message):
            sides[1 - turn % 2].hear(sides[turn % 2].take())
        hearer, words = sides[1 - message % 2], sides[message % 2].take()
        if keep >= len(words):
            continue
        hearer.hear(words[:keep])
        assert not hearer.is_over, (message, keep)


@given(st.binary(max_size=300))
def test_garbage_ends_in_an_error_of_ours_or_in_waiting(garbage: bytes) -> None:
    for side in (dialler(), listener()):
        for begin in (b"", handshake.preamble()):
            side.hear(begin + garbage)
            assert side.result is None
            assert side.most_wanted <= handshake.MAX_BODY_BYTES


@given(st.integers(0, 255), st.binary(max_size=300), st.integers(0, 2))
def test_garbage_in_messages_ends_in_an_error_of_ours_or_in_waiting(
    kind: int, garbage: bytes, turns: int
) -> None:
    sides = [dialler(), listener()]
    for turn in range(turns):
        sides[1 - turn % 2].hear(sides[turn % 2].take())
    message = struct.pack("!BH", kind, len(garbage)) + garbage
    for side in sides:
        side.hear(message if turns > 1 else handshake.preamble() + message)
        assert side.result is None
