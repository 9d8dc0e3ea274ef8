"""What is known of shapes before a step: what TensorFlow 1 knows or more, and nothing wrong."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "static_shapes.json").read_text(encoding="utf-8")
)
LESS = {("tf.squeeze(s[1:2])", "rank")}
"""[n] for an `n` of unknown rank: TensorFlow infers its length when it is read as a shape."""
EVERY = 8
"""CI tests one in this many consumers, nightly tests all."""

_spec = importlib.util.spec_from_file_location(
    "static_shape_cases", Path(__file__).with_name("static_shape_cases.py")
)
assert _spec is not None
assert _spec.loader is not None
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)


def load() -> list[Any]:
    found = []
    for consumers, name, arguments in cases.GROUPS.values():
        for number, consumer in enumerate(consumers):
            marks = pytest.mark.nightly if number % EVERY else ()
            found.append(pytest.param(consumer, name, arguments, id=consumer[:80], marks=marks))
    return found


@pytest.mark.parametrize(("consumer", "name", "arguments"), load())
def test_static_shapes(consumer: str, name: str, arguments: list[str]) -> None:
    wrong: list[str] = []
    made, refused = {}, {}
    with tf.Graph().as_default():
        feeds = cases.with_sources(tf)
        for argument in arguments:
            golden = GOLDEN[consumer][argument]
            for source, expected in zip(cases.SOURCES, golden, strict=True):
                tensor, ours = cases.built(tf, consumer, name, argument, source)
                label = f"{argument} of {source}"
                if ours == "ValueError" and expected.startswith("("):
                    refused[label] = cases.hidden(tf, consumer, name, argument)
                elif not fits(ours, expected, argument) and (argument, source) not in LESS:
                    wrong.append(f"{label}: {ours}, TensorFlow {expected}")
                if isinstance(tensor, tf.Tensor) and ours != expected:
                    made[label] = tensor
        with tf.Session() as session:
            for label, tensor in made.items():
                value = run(session, tensor, feeds)
                if value is not None and not tensor.shape.is_compatible_with(np.shape(value)):
                    wrong.append(f"{label}: {tensor.shape} is {np.shape(value)} in a step")
            for label, tensor in refused.items():
                if run(session, tensor, feeds) is not None:
                    wrong.append(f"{label}: refused, but a step can make it")
    assert not wrong, "\n".join(wrong)


def run(session: Any, tensor: Any, feeds: Any) -> Any:
    """Returns the tensor's value; None if a step rejects it."""
    try:
        return session.run(tensor, feeds)
    except tf.errors.InvalidArgumentError:
        return None


def fits(ours: str, expected: str, argument: str) -> bool:
    """Whether our shape has everything that TensorFlow's has; ours may be more specific."""
    if ours == expected or expected in ("unknown", "value None"):
        return True
    if expected.endswith("Error"):  # we may accept dtypes that TensorFlow does not mix
        return ours.endswith("Error") or "int64" in argument or "to_float" in argument
    if not (ours.startswith("(") and expected.startswith("(")):
        return False
    mine, theirs = ours.strip("()").split(","), expected.strip("()").split(",")
    return len(mine) == len(theirs) and all(
        b in ("?", a) for a, b in zip(mine, theirs, strict=True)
    )
