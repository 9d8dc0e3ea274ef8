"""Eager execution gives the same answers as TensorFlow in graphs: golden cases of functions."""

# ruff: noqa: S102, S307  (the code that is run is our own golden files)

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import sparkflow as tf

GOLDEN = Path(__file__).parents[2] / "golden" / "differential"
FAMILIES = [
    *("arrays", "control", "control_flow", "elementwise", "image", "linalg", "nn_losses"),
    *("nn_convolution", "reduction", "segments", "signal", "sparse", "special", "strings"),
]
NOT_EAGERLY = (
    ".name",
    "tf.gradients",
    "placeholder",
    "variables()",
    ".op",
    "Print",
    "get_variable",
)
"""Cases without meaning if no graph is built."""
EVERY = 3
"""One in this many cases runs here: all of them run in graphs."""

_spec = importlib.util.spec_from_file_location(
    "differential_cases", Path(__file__).parents[1] / "differential_cases.py"
)
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)


def load():
    found = []
    for family in FAMILIES:
        path = GOLDEN / f"{family}.json"
        content = json.loads(path.read_text())
        plain = [
            entry
            for entry in content["entries"]
            if "raises" not in entry and not any(word in entry["case"] for word in NOT_EAGERLY)
        ]
        found += [
            pytest.param(content["header"]["preamble"], entry, id=f"{family}-{number}")
            for number, entry in list(enumerate(plain))[::EVERY]
        ]
    return found


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(("preamble", "entry"), load())
def test_answers_at_once(preamble, entry):
    names = {"tf": tf, "np": np}
    exec(preamble, names)
    *statements, expression = entry["case"].splitlines()
    exec("\n".join(statements), names)
    found = list(cases._leaves(tf, eval(expression, names)))
    for leaf, golden in zip(found, entry["values"], strict=True):
        if "first" not in golden or not isinstance(leaf, tf.Tensor | tf.Variable):
            continue
        numbers = cases._numbers(leaf.numpy())
        assert leaf.dtype.base_dtype.name == golden["dtype"]
        assert numbers["shape"] == golden["shape"]
        first = np.array(golden["first"], np.float64)
        np.testing.assert_allclose(np.array(numbers["first"], float), first, rtol=5e-3, atol=1e-4)


def test_there_are_cases_of_every_family():
    assert len(load()) > 350
