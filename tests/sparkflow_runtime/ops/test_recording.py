"""`capturable` ops are: their rows run while a stand-in for a GPU captures.

Anything that waits for the GPU, copies an array to it, or is a product by cupy is an error there.
A replay must give the row's results, from inputs that were different during capture.
"""

from pathlib import Path

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.device.gpu import Gpu
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.resources.container import Resources
from support import cuda_emulator, fake_cupy, op_cases
from support.eager import EagerBuilder


def _flat(case):
    values = case.arrays(None)
    return [each for value in values for each in (value if type(value) is list else [value])]


DTYPES = {None, dtypes.float32}  # other products are computed by cupy
CASES = [
    case
    for module in op_cases.load_cases(Path(__file__).parent)
    for case in getattr(module, "CASES", [])
    if registry.lookup(case.op).capturable
    and "GPU" in registry.lookup(case.op).kernels
    and not any(array.dtype.kind in "cOS" for array in _flat(case))  # products, texts
]


@pytest.fixture(scope="module")
def cupy(tmp_path_factory):
    with fake_cupy.installed(tmp_path_factory.mktemp("cuda")) as cupy:
        yield cupy


def operation_of(case, dtype):
    """The node, computed by numpy."""
    g = EagerBuilder()
    inputs = [
        [g.const(each) for each in value] if type(value) is list else g.const(value)
        for value in case.arrays(dtype)
    ]
    return g.run(registry.lookup(case.op), inputs, case.attrs)


def _others(values):
    """Returns different values; not all integers are possible."""
    return np.zeros_like(values) if values.dtype.kind == "f" else values


def recorded(cupy, operation):
    """The results of a replay."""
    op, gpu = registry.lookup(operation.op), Gpu(cupy, 0)
    names = op.signature.input_names(operation.attrs)
    values = [np.asarray(tensor.read()) for tensor in operation.inputs]
    given = [
        value if name in op.host_inputs else cupy.asarray(_others(value))
        for name, value in zip(names, values, strict=True)
    ]
    results = [cupy.zeros(tensor.read().shape, tensor.read().dtype) for tensor in operation.outputs]
    fill = op.bind_out_gpu(operation, gpu)
    if fill is None:
        context = KernelContext(cupy, "GPU", "/device:GPU:0", Resources(), Resources(), gpu=gpu)
        try:
            make = op.bind(operation, context)
            make(*given)
        except ModuleNotFoundError as missing:
            pytest.skip(f"the stand-in has no {missing.name}")

    def run():
        if fill is not None:
            fill(*given, *results)
            return results
        made = make(*given)
        return list(made) if isinstance(made, tuple | list) else [made]

    with cupy.cuda.Stream(non_blocking=True) as stream:
        run()  # creates what is created once
        stream.synchronize()
        stream.begin_capture()
        try:
            made = run()
        finally:
            graph = stream.end_capture()
        for array, value in zip(given, values, strict=True):
            if isinstance(array, cupy.ndarray):
                array.memory[...] = value
        graph.launch(stream)
        stream.synchronize()
        return [each.memory for each in made]


def one_row_a_day():
    """The rows of `CASES`; all but the first of an op run only in nightly tests."""
    seen = set()
    for case in CASES:
        nightly = [pytest.mark.nightly] if case.op in seen else []
        seen.add(case.op)
        yield pytest.param(case, id=case.id, marks=nightly)


@pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="g++ is not installed")
@pytest.mark.parametrize("case", list(one_row_a_day()))
def test_a_recording_gives_the_same(case, cupy):
    for dtype in case.run_dtypes():
        if dtype in DTYPES:
            operation = operation_of(case, dtype)
            found = recorded(cupy, operation)
            for each, tensor in zip(found, operation.outputs, strict=True):
                rough = {"rtol": 1e-2, "atol": 1e-2}  # float16; other tests check its precision
                np.testing.assert_allclose(each, tensor.read(), **rough)
