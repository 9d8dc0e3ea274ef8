from typing import Any

import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops import inference
from sparkflow_runtime.ops.op import Inference, Op
from sparkflow_runtime.ops.signature import list_attr, shape_attr, type_attr
from sparkflow_runtime.shapes import Shape

T = {
    "T": type_attr(),
    "shape": shape_attr(),
    "shapes": list_attr("shape"),
    "Tout": list_attr("type"),
}
ATTRS = {
    "T": dtypes.float32,
    "shape": (None, 7),
    "shapes": [(1,), None],
    "Tout": [dtypes.int32] * 3,
}


def inferred(rule: Any, *shapes: Shape, outputs: str = "y: T") -> list[Shape]:
    inputs = ", ".join(f"x{i}: T" for i in range(len(shapes)))
    facts = {"inputs": inputs, "outputs": outputs, "attrs": T}
    op: Op = type("Own", (Op,), facts if rule is None else {**facts, "infer": rule})()
    return list(op.infer(Inference(shapes, [dtypes.float32] * len(shapes), ATTRS)))


def test_what_has_no_outputs_needs_no_inference() -> None:
    assert inferred(None, (2,), outputs="") == []
    with pytest.raises(NotImplementedError, match="Own"):
        inferred(None, (2,))


def test_there_are_as_many_shapes_as_outputs() -> None:
    assert inferred(inference.scalars, outputs="a: T, b: Tout") == [()] * 4
    assert inferred(inference.unknown, outputs="a: T, b: Tout") == [None] * 4


def test_shapes_of_inputs() -> None:
    assert inferred(inference.same_as(1), (2,), (None, 3)) == [(None, 3)]
    assert inferred(inference.same_as_all, (2,), None) == [(2,), None]
    assert inferred(inference.same_as(0, 2, "x"), None) == [(None, None)]
    with pytest.raises(InvalidArgumentError, match=r"rank 2 but is rank 1: x has shape \(4,\)"):
        inferred(inference.same_as(0, 2, "x"), (4,))


def test_shapes_of_several_inputs() -> None:
    assert inferred(inference.broadcast, (3, 1), (1, 4), (4,)) == [(3, 4)]
    assert inferred(inference.merged, (None, 4), None, (3, None)) == [(3, 4)]
    with pytest.raises(InvalidArgumentError):
        inferred(inference.merged, (2,), (3,))


def test_shapes_of_attributes() -> None:
    assert inferred(inference.attribute("shape")) == [(None, 7)]
    assert inferred(inference.attribute("shapes"), outputs="a: T, b: T") == [(1,), None]
    assert inferred(inference.sizes((None, 2), ()), outputs="a: T, b: T") == [(None, 2), ()]
