"""Digests: what they ignore, and the differences between graphs that they name."""

import json
from collections.abc import Callable

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark.graphs.digest import GraphDigest, changed_constants, changed_scopes


def digest(build: Callable[[], object]) -> GraphDigest:
    with tf.Graph().as_default() as graph:
        build()
    return GraphDigest.of(graph.as_graph_def())


def model(
    rate: float = 0.1, units: int = 3, extra: bool = False, big: np.ndarray | None = None
) -> GraphDigest:
    def build() -> None:
        x = tf.placeholder(tf.float32, [None, units], name="x")
        with tf.name_scope("layer"):
            y = tf.multiply(x, tf.constant(rate, name="rate"), name="scaled")
            with tf.name_scope("inner"):
                tf.nn.relu(y)
        if big is not None:
            tf.constant(big, name="big")
        if extra:
            with tf.name_scope("extra"):
                tf.exp(y)

    return digest(build)


def test_equal_graphs_have_equal_digests() -> None:
    assert model() == model()
    assert list(changed_scopes(model(), model())) == []
    assert list(changed_constants(model(), model())) == []


def test_devices_make_no_difference() -> None:
    def build() -> None:
        tf.constant(1.0, name="a")

    def placed() -> None:
        with tf.device("/cpu:0"):
            tf.constant(1.0, name="a")

    assert digest(build) == digest(placed)


def test_a_changed_constant_is_named_with_its_values() -> None:
    old, new = model(rate=0.1), model(rate=0.25)
    assert list(changed_constants(old, new)) == ["constant layer/rate: 0.1 -> 0.25"]
    assert list(changed_scopes(old, new)) == []


@pytest.mark.parametrize(("factor", "count"), [(1 + 1e-7, 0), (1 + 1e-4, 1)])
def test_means_that_differ_in_the_last_bits_are_alike(factor: float, count: int) -> None:
    old, new = model(rate=0.1), model(rate=0.1 * factor)
    assert len(list(changed_constants(old, new))) == count


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values[::-1].copy(),  # the same elements in other places
        lambda values: values + np.float32(0.01),
        lambda values: np.where(np.arange(100) == 50, np.nan, values).astype(np.float32),
        lambda values: values[:99],
    ],
)
def test_large_constants_are_told_apart(change: Callable[[np.ndarray], np.ndarray]) -> None:
    values = np.random.RandomState(0).rand(100).astype(np.float32)
    old, new = model(big=values), model(big=change(values))
    assert list(changed_constants(old, new)) == ["constant big"]
    assert len(old.constants["big"]) == 5
    assert list(changed_constants(old, model(big=values * np.float32(1 + 1e-7)))) == []


def test_scopes_that_differ_are_new_or_gone() -> None:
    assert list(changed_scopes(model(), model(extra=True))) == ["operations in 'extra' are new"]
    assert list(changed_scopes(model(extra=True), model())) == ["operations in 'extra' are gone"]
    said = list(changed_scopes(model(units=3), model(units=4)))
    assert said == ["operations outside of all scopes differ"]


def test_outer_scopes_stand_for_inner_ones() -> None:
    old = GraphDigest({"a": "1", "a/b": "1", "a/b/c": "1", "d/e": "1", "": "1"}, {})
    new = GraphDigest({"a": "2", "a/b": "2", "d/e": "2", "": "2"}, {})
    assert list(changed_scopes(old, new)) == [
        "operations in 'a' differ",
        "operations in 'd/e' differ",
        "operations in 'a/b/c' are gone",
        "operations outside of all scopes differ",
    ]


def test_json_keeps_every_bit() -> None:
    kept = model(rate=1 / 3, big=np.array([np.inf, np.nan, -0.0, 1e-45], np.float32))
    back = GraphDigest.from_json(json.loads(json.dumps(kept.to_json())))
    assert back.scopes == kept.scopes
    assert len(kept.constants["big"]) == 4  # few enough to be stored individually
    assert list(changed_constants(kept, back)) == []
    assert str(dict(back.constants)) == str(dict(kept.constants))
