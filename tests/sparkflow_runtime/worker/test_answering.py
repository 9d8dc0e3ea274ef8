"""The texts of calls that run partitions."""

import contextlib
import struct

import pytest

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.worker.answering import Run, pack_run, unpack_run

RUNS = [
    Run("session", "session/1"),
    Run("", "", True),
    Run("s", "h", False, "0-1-1-0"),
    Run("s", "häfen", True, "0-1-1-0", ("1-0-0-0", "1-0-0-1")),
    Run("s", "h", False, "0-1-1-0", (), "1-0-2-1"),
    Run("s", "h", False, "0-1-1-0", ("1-0-0-0",), "1-0-2-1"),
    Run("s", "h", repeats=True),
]


@pytest.mark.parametrize("run", RUNS)
def test_a_call_says_what_it_was_made_of(run: Run) -> None:
    assert unpack_run(pack_run(run)) == run


def test_a_call_without_a_bundle_is_what_it_was_before() -> None:
    """Older tasks read it: whether it is alone, two sizes, two names."""
    assert pack_run(Run("ab", "cde", True)) == struct.pack("<?HH", True, 2, 3) + b"abcde"


@pytest.mark.parametrize("run", RUNS)
def test_what_is_cut_off_is_refused_or_says_less(run: Run) -> None:
    text = pack_run(run)
    keys = {run.brings, *run.unasked, run.ends, ""}
    for end in range(len(text)):
        with contextlib.suppress(InvalidArgumentError):
            found = unpack_run(text[:end])
            assert found[:4] == run[:4]
            assert {found.brings, *found.unasked, found.ends} < keys
            continue
        with pytest.raises(InvalidArgumentError, match="A malformed call"):
            unpack_run(text[:end])


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("more", [b"\1", b"\1\0", b"\1\0\xff"])
def test_what_is_too_long_is_refused(run: Run, more: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="A malformed call"):
        unpack_run(pack_run(run) + more)


def test_what_brings_a_bundle_is_not_repeated() -> None:
    text = pack_run(Run("s", "h", False, "k", repeats=True))
    with pytest.raises(InvalidArgumentError, match="A malformed call"):
        unpack_run(text)


def test_keys_belong_to_a_bundle() -> None:
    with_keys = bytearray(pack_run(Run("s", "h", False, "k")))
    with_keys[0] = 0
    with pytest.raises(InvalidArgumentError, match="A malformed call"):
        unpack_run(bytes(with_keys))
