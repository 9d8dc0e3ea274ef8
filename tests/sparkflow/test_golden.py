"""What TensorFlow 1 builds, prints and computes for the same lines of Python."""

# ruff: noqa: S102, S307  (the code that is run is our own golden files)

import builtins
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

GOLDEN = Path(__file__).parents[1] / "golden" / "front_end"


def load(name: str, key: str) -> list[Any]:
    content = json.loads((GOLDEN / f"{name}.json").read_text())
    return [pytest.param(content["preamble"], e, id=e[key]) for e in content["entries"]]


def described(op: tf.Operation) -> list[Any]:
    controls = sorted(each.name for each in op.control_inputs)
    groups = [group.decode() for group in op.colocation_groups()]
    colocated = [group for group in groups if group != f"loc:@{op.name}"]
    inputs = [tensor.name for tensor in op.inputs]
    return [op.name, op.type, inputs, controls, op.device, colocated]


@pytest.mark.parametrize(("preamble", "entry"), load("graphs", "statement"))
def test_adds_the_nodes_that_tensorflow_adds(preamble: str, entry: dict[str, Any]) -> None:
    with tf.Graph().as_default() as graph:
        names = {"tf": tf}
        exec(preamble, names)
        before = len(graph.get_operations())
        exec(entry["statement"], names)
    assert [described(op) for op in graph.get_operations()[before:]] == entry["nodes"]


def check(array: Any, golden: dict[str, Any]) -> None:
    array = np.asarray(array).astype(np.float64)
    numbers = array.ravel()
    assert list(array.shape) == golden["shape"]
    np.testing.assert_allclose(numbers[:6], golden["first"], rtol=2e-5, atol=1e-6)
    sums = [numbers.sum(), (numbers * np.arange(1, numbers.size + 1)).sum()]
    # Values that cancel out to nearly 0 still contain float32 rounding errors, each element its
    # own.
    noise = 2e-7 * numbers.size**2 + 2e-6 * np.abs(numbers).sum() * numbers.size
    np.testing.assert_allclose(sums, golden["sums"], rtol=2e-5, atol=noise)


@pytest.mark.parametrize(("preamble", "entry"), load("values", "expression"))
def test_computes_what_tensorflow_computes(preamble: str, entry: dict[str, Any]) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        names: dict[str, Any] = {"tf": tf, "np": np}
        exec(preamble, names)
        tensor = eval(entry["expression"], names)
        assert tensor.dtype.name == entry["dtype"]
        value = session.run(tensor)
        check(value, entry["value"])
        assert tensor.shape.is_compatible_with(np.shape(value))
        for name in entry.keys() & {"x", "img", "k"}:
            gradient = tf.gradients(tensor * tensor, names[name])[0]
            check(session.run(tf.convert_to_tensor(gradient)), entry[name])


@pytest.mark.parametrize(("preamble", "entry"), load("prints", "expression"))
def test_prints_and_raises_as_tensorflow_does(preamble: str, entry: dict[str, Any]) -> None:
    with tf.Graph().as_default():
        names = {"tf": tf, "np": np}
        exec(preamble, names)
        if "raises" in entry:
            with pytest.raises(getattr(builtins, entry["raises"])):
                eval(entry["expression"], names)
        else:
            assert repr(eval(entry["expression"], names)) == entry["result"]
