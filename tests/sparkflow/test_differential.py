"""TensorFlow 1's answers to the same lines of Python: values, dtypes, gradients, errors."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

pytestmark = pytest.mark.usefixtures("plans_at_once")

GOLDEN = Path(__file__).parents[1] / "golden" / "differential"

CANCELLED = 1e-7
"""What may remain of float32 numbers near 1 that cancel out."""

# CI compiles the kernels of one in this many cases, nightly tests those of all.
EVERY = 8

# Errors that TensorFlow's assertions detect and our static shapes detect earlier: weights that do
# not fit values whose shape only we know, or sparse tensors of known shapes that do not fit
# together.
_EARLIER = re.compile(r"_at_(top_)?k\b.*weights=|sparse_concat\(")


def is_earlier(entry: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Whether the same is rejected, by the shapes instead of an assertion."""
    return (
        entry.get("raises") == "InvalidArgumentError"
        and ours == {"raises": "ValueError", "when": "building"}
        and _EARLIER.search(entry["case"]) is not None
    )


_spec = importlib.util.spec_from_file_location(
    "differential_cases", Path(__file__).with_name("differential_cases.py")
)
assert _spec is not None
assert _spec.loader is not None
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)


def load() -> list[Any]:
    found = []
    for path in sorted(GOLDEN.glob("*.json")):
        content = json.loads(path.read_text())
        for number, entry in enumerate(content["entries"]):
            label = f"{path.stem}-{number}-{entry['case'].splitlines()[-1][:80]}"
            marks = pytest.mark.nightly if number % EVERY else ()
            found.append(pytest.param(content["header"], entry, id=label, marks=marks))
    return found


@pytest.mark.parametrize(("header", "entry"), load())
def test_answers_as_tensorflow_does(
    header: dict[str, Any], entry: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    if "tempfile" in header["preamble"]:  # its cases leave directories behind
        request.getfixturevalue("own_temporary_files")
    ours = cases.answer(
        tf, header["preamble"], entry["case"], header["with_respect_to"], header["second_order"]
    )
    if is_earlier(entry, ours):
        return
    if "raises" in entry or "raises" in ours:
        assert ours == {key: entry[key] for key in entry if key != "case"}
        return
    assert len(ours["values"]) == len(entry["values"])
    for value, golden in zip(ours["values"], entry["values"], strict=True):
        compare(value, golden)
    assert sorted(ours.get("gradients", {})) == sorted(entry.get("gradients", {}))
    for name, golden in entry.get("gradients", {}).items():
        compare(ours["gradients"][name], golden)


def compare(ours: dict[str, Any], golden: dict[str, Any]) -> None:
    exact = {key: golden[key] for key in golden if key not in ("first", "sums", "static")}
    assert {key: ours.get(key) for key in exact} == exact
    if "static" in golden:
        # We may know more of a shape than TensorFlow, but nothing contradictory.
        assert tf.TensorShape(ours["shape"]).is_compatible_with(shape_of(ours["static"]))
    if "first" not in golden:
        return
    low = golden.get("dtype") in ("float16", "bfloat16")
    inexact = golden.get("dtype", "float32").startswith(("float", "bfloat", "complex"))
    first = np.array(golden["first"], np.float64)
    tolerance = 4e-3 if low else (2e-5 if inexact else 0)
    size = max(1, int(np.prod(golden["shape"], dtype=float)))
    nothing = CANCELLED if inexact else 0
    scale = golden["sums"][2] / size
    np.testing.assert_allclose(
        np.array(ours["first"], np.float64),
        first,
        rtol=tolerance,
        atol=tolerance * scale / 2 + nothing,
    )
    noise = tolerance * golden["sums"][2] + nothing * size
    assert abs(ours["sums"][0] - golden["sums"][0]) <= noise
    assert abs(ours["sums"][1] - golden["sums"][1]) <= noise * size


def shape_of(text: str) -> Any:
    """The static shape that TensorFlow 1 prints as `(2, ?)` or `<unknown>`."""
    if text == "<unknown>":
        return tf.TensorShape(None)
    sizes = [part.strip() for part in text.strip("()").split(",") if part.strip()]
    return tf.TensorShape([None if size in ("?", "None") else int(size) for size in sizes])
