"""How `tf.while_loop` nests its results; what loops compute is tested in `ops/control_flow`."""

import collections

import pytest

import sparkflow as tf

Pair = collections.namedtuple("Pair", "i x")


def _first(i: tf.Tensor) -> tf.Tensor:
    return i < 3


def test_one_variable_is_returned_itself() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(tf.while_loop(_first, lambda i: i + 1, [0])) == 3
        named = tf.while_loop(lambda d: _first(d["i"]), lambda d: {"i": d["i"] + 1}, [{"i": 0}])
        assert session.run(named) == {"i": 3}
        kept = tf.while_loop(_first, lambda i: i + 1, [0], return_same_structure=True)
        assert session.run(kept) == [3]


@pytest.mark.parametrize(
    "start", [(0, 1.0), Pair(0, 1.0), {"i": 0, "x": 1.0}], ids=["tuple", "named", "dictionary"]
)
def test_several_in_one_stay_in_their_list(start: object) -> None:
    def parts(each: object) -> tuple[tf.Tensor, tf.Tensor]:
        return (each["i"], each["x"]) if isinstance(each, dict) else tuple(each)

    def following(each: object) -> list[object]:
        i, x = parts(each)
        if isinstance(each, dict):
            return [{"i": i + 1, "x": x * 2}]
        return [Pair(i + 1, x * 2) if isinstance(each, Pair) else (i + 1, x * 2)]

    with tf.Graph().as_default(), tf.Session() as session:
        start = tf.nest.map_structure(tf.constant, start)
        result = tf.while_loop(lambda each: parts(each)[0] < 3, following, [start])
        assert isinstance(result, list)
        (found,) = session.run(result)
        assert parts(found) == (3, 8.0)
        assert type(found) is type(start)
