"""Random streams that continue where others have stopped."""

import json

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - random ops read constants
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.random.random import RandomStream, stream_of
from sparkflow_runtime.ops.random.random_states import read_states, write_states
from sparkflow_runtime.resources.container import Resources
from support.eager import EagerBuilder


def stream(session, name, seed=1):
    return stream_of(session, name, RandomStream, lambda: RandomStream(seed, 2))


def drawn(session, name):
    return stream(session, name).generator.random(5, np.float32).tolist()


@pytest.mark.parametrize("made_before", [True, False])
def test_another_session_goes_on_with_the_same_numbers(made_before):
    first, second = Resources(), Resources()
    drawn(first, "a")
    drawn(first, "b")
    drawn(first, "b")
    if made_before:
        stream(second, "a", seed=9)
    write_states(second, read_states(first))
    assert drawn(second, "a") == drawn(first, "a")
    assert drawn(second, "b") == drawn(first, "b")
    assert drawn(second, "b") == drawn(first, "b")


def test_half_a_word_that_is_left_is_kept():
    first, second = Resources(), Resources()
    stream(first, "a").generator.integers(0, 1 << 30, 3, np.int32)
    write_states(second, read_states(first))
    assert (
        read_states(first)
        == json.dumps({"a": json.loads(read_states(first))["a"]}, sort_keys=True).encode()
    )
    numbers = [
        stream(each, "a").generator.integers(0, 1 << 30, 4, np.int32) for each in (first, second)
    ]
    assert numbers[0].tolist() == numbers[1].tolist()


@pytest.mark.parametrize(
    "states",
    [
        b"",
        b"[]",
        b'{"a": 1}',
        b'{"a": {"counter": [1], "key": [1, 2], "buffer": [0, 0, 0, 0], "buffer_pos": 4, '
        b'"has_uint32": 0, "uinteger": 0}}',
        b'{"a": {"counter": [1, 2, 3, 4], "key": [1, 2], "buffer": [0, 0, 0, 0], "buffer_pos": 5, '
        b'"has_uint32": 0, "uinteger": 0}}',
    ],
)
def test_other_texts_are_refused(states):
    with pytest.raises(InvalidArgumentError, match="no states of random streams"):
        write_states(Resources(), states)


def test_ops_read_and_set_the_streams_of_the_session():
    g = EagerBuilder()

    def draw():
        shape = np.array([3], np.int32)
        noise = g.RandomUniform(shape, seed=1, seed2=2, dtype=dtypes.float32, name="noise")
        return noise.value.tolist()

    draw()
    states = g.RandomStates()
    first = draw()
    assert draw() != first
    g.SetRandomStates(states)
    assert draw() == first
