"""Replays the answers of TensorFlow's kernels, from the files of scripts/generate_op_golden.py.

Outputs are compared, and that both accept or both reject; the texts of errors are our own.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - registers the ops the files are about
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops import registry
from support.eager import EagerBuilder

DIRECTORY = Path(__file__).parents[2] / "golden" / "ops"
FAMILIES = sorted(path.stem for path in DIRECTORY.glob("*.npz"))


def test_files_are_there():
    assert FAMILIES == ["conv", "indices", "losses", "pool", "shapes", "strided_slice"]


@pytest.mark.parametrize("known", [True, False], ids=["constants", "unknown_inputs"])
@pytest.mark.parametrize("family", FAMILIES)
def test_same_answer_as_tensorflow(family, known):
    with np.load(DIRECTORY / f"{family}.npz") as file:
        flat = dict(file)
    records = json.loads(flat.pop("index").tobytes())
    wrong = [
        f"{text}: {record}"
        for record in records
        if (text := difference(record, flat, known)) is not None
    ]
    assert not wrong, f"{len(wrong)} of {len(records)} differ:\n" + "\n".join(wrong[:10])


def difference(record: dict, flat: dict, known: bool) -> str | None:
    def array(place: list) -> np.ndarray:
        dtype, shape, offset = place
        size = int(np.prod(shape))
        return flat[dtype][offset : offset + size].reshape(shape)

    g = EagerBuilder()
    make = g.const if known else lambda value: g.tensor(value, static_shape=None)
    inputs = [
        [make(array(each)) for each in value] if isinstance(value[0], list) else make(array(value))
        for value in record["inputs"]
    ]
    try:
        outputs = g.run(registry.lookup(record["op"]), inputs, record["attrs"]).outputs
    except InvalidArgumentError as error:
        if known and error.message.startswith("Negative dimension size"):
            # The answers are of kernels alone, which return nothing; TensorFlow's graphs reject it,
            # too.
            assert any(0 in place[1] for place in record["outputs"])
            return None
        return None if "error" in record else f"refused with {error.message!r}"
    if "error" in record:
        return f"accepted, giving {[output.value for output in outputs]}"
    if len(outputs) != len(record["outputs"]):
        return f"{len(outputs)} outputs"
    for output, place in zip(outputs, record["outputs"], strict=True):
        expected = array(place)
        if output.value.dtype != expected.dtype or output.value.shape != expected.shape:
            return f"gave {output.value.dtype} {output.value.shape}"
        tolerance = 2e-6 if expected.dtype.kind == "f" else 0
        if not np.allclose(output.value, expected, rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"gave {output.value.tolist()}, not {expected.tolist()}"
    return None
