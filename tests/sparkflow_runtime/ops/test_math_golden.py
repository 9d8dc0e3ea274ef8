"""Replays TensorFlow's answers for special values, from scripts/generate_math_golden.py.

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

FILES = sorted((Path(__file__).parents[2] / "golden" / "math_ops").glob("*.npz"))
RTOL = {"float16": 4e-3, "float32": 2e-6, "float64": 1e-9, "complex64": 4e-6, "complex128": 1e-9}


def test_files_are_there():
    names = ["activations", "binary", "matrices", "reductions", "unary"]
    assert [path.stem for path in FILES] == names


@pytest.mark.parametrize("known", [True, False], ids=["constants", "unknown_inputs"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_same_answer_as_tensorflow(path, known):
    with np.load(path) as file:
        flat = dict(file)
    records = json.loads(flat.pop("index").tobytes())
    found = [(record["op"], difference(record, flat, known)) for record in records]
    wrong = [f"{op}: {text}" for op, text in found if text is not None]
    assert not wrong, f"{len(wrong)} of {len(records)} differ:\n" + "\n".join(wrong[:10])


def difference(record: dict, flat: dict, known: bool) -> str | None:
    def array(place: list) -> np.ndarray:
        dtype, shape, offset = place
        return flat[dtype][offset : offset + int(np.prod(shape))].reshape(shape)

    g = EagerBuilder()
    make = g.const if known else lambda value: g.tensor(value, static_shape=None)
    inputs = [
        [make(array(each)) for each in value] if isinstance(value[0], list) else make(array(value))
        for value in record["inputs"]
    ]
    try:
        outputs = g.run(registry.lookup(record["op"]), inputs, record["attrs"]).outputs
    except (InvalidArgumentError, ValueError) as error:  # bare ufuncs raise numpy's errors
        return None if "error" in record else f"refused with {error!r}"
    if "error" in record:
        return f"accepted, where TensorFlow says {record['error']!r}"
    for output, place in zip(outputs, record["outputs"], strict=True):
        expected = array(place)
        if output.value.dtype != expected.dtype or output.value.shape != expected.shape:
            return f"gave {output.value.dtype} {output.value.shape}"
        tolerance = RTOL.get(expected.dtype.name, 0)
        with np.errstate(invalid="ignore"):  # numpy 1 warns of infinities
            close = np.isclose(output.value, expected, tolerance, tolerance, equal_nan=True)
        if not close.all():
            return f"gave {np.asarray(output.value)[~close]}, not {expected[~close]}"
    return None
