"""Runs the op test table: every row of the `cases_*.py` in this folder, on every device."""

from pathlib import Path

import pytest

from sparkflow_runtime.device.device import task_devices
from sparkflow_runtime.errors import UnimplementedError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op
from support import op_cases
from support.eager import EagerBuilder

MODULES = list(op_cases.load_cases(Path(__file__).parent))


def rows(name: str) -> list:
    return [row for module in MODULES for row in getattr(module, name, [])]


def by_id(cases: list) -> list:
    return [pytest.param(case, id=case.id) for case in cases]


CASES = rows("CASES")


def gpu_builder() -> EagerBuilder:
    return EagerBuilder(task_devices("localhost", 0, gpus=1)[1].xp, "GPU")


@pytest.mark.parametrize("case", by_id(CASES))
def test_result_is_that_of_numpy_for_every_dtype(case):
    for dtype in case.run_dtypes():
        op_cases.check_forward(case, dtype)


@pytest.mark.parametrize("case", by_id(CASES))
def test_strides_do_not_matter(case):
    op_cases.check_non_contiguous(case)


def can_fill(case) -> bool:
    """Whether the op has a kernel that fills arrays, for some dtypes at least."""
    return type(registry.lookup(case.op)).bind_out is not Op.bind_out


def test_some_ops_fill_arrays_and_some_do_not():
    filling = {case.op for case in CASES if can_fill(case)}
    assert {"MatMul", "ConcatV2", "Softmax", "AddV2"} <= filling
    assert {"Shape", "Reshape", "FFT"}.isdisjoint(filling)


@pytest.mark.parametrize("case", by_id([c for c in CASES if can_fill(c)]))
def test_filling_arrays_is_the_same_as_making_them(case):
    for dtype in case.run_dtypes():
        op_cases.check_filling(case, dtype)


@pytest.mark.parametrize("case", by_id([c for c in CASES if c.gradient]))
def test_gradient_is_that_of_central_differences(case):
    op_cases.check_gradient(case)


@pytest.mark.parametrize("case", by_id([c for c in CASES if c.second_order]))
def test_second_gradient_is_that_of_central_differences(case):
    op_cases.check_second_order(case)


@pytest.mark.parametrize("case", by_id(rows("WRONG_SHAPES")))
def test_wrong_shapes_are_refused_before_anything_runs(case):
    op_cases.check_wrong_shapes(case)


@pytest.mark.parametrize("case", by_id(rows("FAILURES")))
def test_kernel_refuses_wrong_values(case):
    op_cases.check_failure(case)


def runs_on_gpu(case) -> bool:
    inputs = [x for value in case.arrays(None) for x in (value if type(value) is list else [value])]
    strings = any(array.dtype == object for array in inputs)
    return "GPU" in registry.lookup(case.op).kernels and not strings


def has_gpu_kernels(check, *arguments) -> bool:
    """Whether a check has run; placement assigns to the CPU what a GPU has no kernel for."""
    try:
        check(*arguments, gpu_builder)
    except UnimplementedError as error:
        if "for device GPU" not in str(error):
            raise
        return False
    return True


@pytest.mark.gpu
@pytest.mark.parametrize("case", by_id([c for c in CASES if runs_on_gpu(c)]))
def test_gpu_gives_the_same(case):
    ran = [has_gpu_kernels(op_cases.check_forward, case, dtype) for dtype in case.run_dtypes()]
    if case.gradient:
        ran.append(has_gpu_kernels(op_cases.check_gradient, case))
    if not any(ran):
        pytest.skip("a GPU has no kernel for its dtypes")
