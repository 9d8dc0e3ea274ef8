"""Ops as one call of machine code do the same as their kernels, on every row of the table."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.machine_call import CallSite, MachineCall
from sparkflow_runtime.ops.random.random import RandomStream
from support import op_cases
from support.eager import EagerBuilder

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")
MODULES = list(op_cases.load_cases(Path(__file__).parent))
DECLARED = {
    *("Gather", "GatherV2", "UnsortedSegmentSum", "ArgMax", "ArgMin", "RandomUniform"),
    *("Slice", "StridedSlice", "StridedSliceGrad"),
    *("Sin", "Cos", "Cumsum", "Cumprod", "MatrixInverse", "MatrixSolve", "TopKV2", "Multinomial"),
}
DRAWN = {"RandomUniform", "Multinomial"}
LOOSE = {"MatrixInverse", "MatrixSolve"}
"""Ops that round differently from LAPACK."""


def site_of(g: EagerBuilder, operation: Any) -> CallSite:
    arrays = [np.asarray(each.read()) for each in operation.inputs]
    outputs = [np.asarray(each.read()) for each in operation.outputs]
    return CallSite(
        [each.shape for each in arrays],
        arrays,
        [each.dtype for each in operation.inputs],
        [each.shape for each in outputs],
        g.context.session,
    )


def called(call: MachineCall, operation: Any) -> tuple[list[np.ndarray[Any, Any]], bool]:
    """Returns what the call writes, and whether it fails."""
    arrays = [np.ascontiguousarray(operation.inputs[place].read()) for place in call.inputs]
    written = [np.full_like(np.asarray(each.read(), order="C"), 77) for each in operation.outputs]
    failure = np.array(0, np.int32)
    assert call.kernel(*arrays, *written, *([failure] if call.can_fail else []))
    return written, bool(failure)


CASES = [
    case
    for module in MODULES
    for case in getattr(module, "CASES", [])
    if case.op in DECLARED - DRAWN
]


def calls_of(case: Any) -> Any:
    """Yields, per dtype, the operation and its op's machine call."""
    op = registry.lookup(case.op)
    for dtype in case.run_dtypes():
        g = EagerBuilder()
        tensors = op_cases._tensors(g, case, op_cases._flatten(case.arrays(dtype)), op_cases.KNOWN)
        operation = g.run(op, op_cases._unflatten(case, tensors), case.attrs)
        call = op.machine_call(operation, site_of(g, operation))
        if call is not None:
            yield operation, call


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_a_call_does_what_the_kernel_does(case: Any) -> None:
    for operation, call in calls_of(case):
        found, failed = called(call, operation)
        if failed and ("Slice" in case.op or case.op == "TopKV2"):
            continue  # clipped bounds, and rows with NaN, are left to Python
        assert not failed
        for one, tensor in zip(found, operation.outputs, strict=True):
            rtol = 1e-4 if case.op in LOOSE else 1e-6
            np.testing.assert_allclose(one, op_cases.host(tensor), rtol=rtol, atol=rtol)
        if call.adding is not None:
            (one,), failure = found, np.array(7, np.int32)
            given = [np.ascontiguousarray(operation.inputs[place].read()) for place in call.inputs]
            total = np.full_like(one, 3)
            call.adding(*given, total, *([failure] if call.can_fail else []))
            np.testing.assert_array_equal(total, one + 3)


def test_every_op_is_called_in_some_row() -> None:
    assert {case.op for case in CASES if any(calls_of(case))} == DECLARED - DRAWN


def test_ops_that_say_so() -> None:
    declared = {
        op.op_type
        for op in registry.all_ops()
        if type(op).machine_call is not _plain().machine_call
    }
    assert declared == DECLARED


def _plain() -> Any:
    return type(registry.lookup("MatrixDeterminant"))


def test_a_stream_can_be_set_back() -> None:
    stream = RandomStream(1, 2)
    before = stream.state
    first = stream.generator.random(5)
    stream.state = before
    np.testing.assert_array_equal(stream.generator.random(5), first)
