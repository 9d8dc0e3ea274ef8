"""Properties that ops declare are queried for nodes with known shapes."""

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.compiler.loops.calls import call_of, outputs_of
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.resources.container import Resources

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")
NODE = Node(
    "sums",
    "UnsortedSegmentSum",
    (Endpoint("rows", 0), Endpoint("ids", 0), Endpoint("count", 0)),
    attrs={"T": dtypes.float32, "Tindices": dtypes.int32, "Tnumsegments": dtypes.int32},
)


def known(rows: Any) -> dict[Endpoint, Known]:
    count = np.array(3, np.int32)
    shapes = {"rows": rows, "ids": (2,), "sums": (3, 4)}
    kinds = {"rows": dtypes.float32, "ids": dtypes.int32, "sums": dtypes.float32}
    found = {Endpoint(name, 0): Known(kinds[name], shape) for name, shape in shapes.items()}
    return {**found, Endpoint("count", 0): Known(dtypes.int32, (), count)}


def test_a_call_and_one_that_adds() -> None:
    call = call_of(NODE, known((2, 4)), Resources())
    assert call is not None
    assert (call.inputs, call.can_fail) == ((0, 1), True)
    rows, ids = np.ones((2, 4), np.float32), np.array([2, 2], np.int32)
    sums, failure = np.full((3, 4), 7, np.float32), np.array(1, np.int32)
    call.kernel(rows, ids, sums, failure)
    assert sums[:, 0].tolist() == [0, 0, 2]
    assert call.adding is not None
    call.adding(rows, ids, sums, failure)
    assert sums[:, 0].tolist() == [0, 0, 4]
    assert failure == 0


def test_none_where_a_shape_is_not_known() -> None:
    assert call_of(NODE, known((None, 4)), Resources()) is None


def test_outputs() -> None:
    assert outputs_of(NODE) == [Endpoint("sums", 0)]
