"""Variables by handle: the same effect as by reference, for every op that has both forms."""

import threading

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    OutOfRangeError,
)
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.state import resource_variable
from support.eager import EagerBuilder

UPDATES = [
    op.op_type
    for op in registry.all_ops()
    if isinstance(op, resource_variable.OnHandle) and op.op_type.startswith("ResourceApply")
]
SPARSE = [
    op.op_type
    for op in registry.all_ops()
    if isinstance(op, resource_variable.OnHandle) and op.op_type.startswith("ResourceSparseApply")
]
SCATTERS = {
    "ResourceScatterUpdate": lambda old, new: new,
    "ResourceScatterAdd": np.add,
    "ResourceScatterSub": np.subtract,
    "ResourceScatterMul": np.multiply,
    "ResourceScatterDiv": np.divide,
    "ResourceScatterMin": np.minimum,
    "ResourceScatterMax": np.maximum,
}
SCATTERS_ND = {
    "ResourceScatterNdUpdate": lambda old, new: new,
    "ResourceScatterNdAdd": np.add,
    "ResourceScatterNdSub": np.subtract,
    "ResourceScatterNdMin": np.minimum,
    "ResourceScatterNdMax": np.maximum,
}


@pytest.fixture
def g():
    return EagerBuilder()


def handle_of(g, value=None, name="v", shape=(3,)):
    handle = g.VarHandleOp(shared_name=name, shape=shape, dtype=dtypes.float32)
    if value is not None:
        g.AssignVariableOp(handle, np.float32(value))
    return handle


def read(g, handle):
    return g.ReadVariableOp(handle, dtype=dtypes.float32).value


def test_a_variable_is_made_assigned_and_read(g):
    handle = handle_of(g)
    assert not g.VarIsInitializedOp(handle).value
    with pytest.raises(FailedPreconditionError, match="uninitialized value v"):
        read(g, handle)
    g.AssignVariableOp(handle, np.float32([1, 2, 3]))
    assert g.VarIsInitializedOp(handle).value
    before = read(g, handle)
    g.AssignAddVariableOp(handle, np.float32([1, 1, 1]))
    g.AssignSubVariableOp(handle, np.float32([0, 0, 4]))
    assert read(g, handle).tolist() == [2, 3, 0]
    assert before.tolist() == [1, 2, 3]
    assert g.VariableShape(handle).value.tolist() == [3]
    g.DestroyResourceOp(handle)
    assert not g.VarIsInitializedOp(handle).value


def test_a_handle_and_a_reference_are_one_variable(g):
    handle_of(g, [1, 2, 3])
    ref = g.VariableV2(name="v", shape=(3,), dtype=dtypes.float32)
    assert ref.value.read().tolist() == [1, 2, 3]


def test_another_shape_is_refused(g):
    with pytest.raises(InvalidArgumentError, match=r"lhs shape= \[3\] rhs shape= "):
        handle_of(g, [1, 2])


def test_rows_are_gathered(g):
    handle = handle_of(g, [[1, 2], [3, 4], [5, 6]], shape=(3, 2))
    rows = g.ResourceGather(handle, np.int32([2, 0]), dtype=dtypes.float32)
    assert rows.value.tolist() == [[5, 6], [1, 2]]
    picked = g.ResourceGatherNd(handle, np.int32([[2, 0]]), dtype=dtypes.float32)
    assert picked.value.tolist() == [5]


@pytest.mark.parametrize("op", SCATTERS)
def test_rows_are_updated(g, op):
    handle = handle_of(g, [8, 2, 4])
    getattr(g, op)(handle, np.int32([0, 2]), np.float32([2, 16]))
    assert read(g, handle).tolist() == [SCATTERS[op](8, 2), 2, SCATTERS[op](4, 16)]


@pytest.mark.parametrize("op", SCATTERS_ND)
def test_slices_are_updated(g, op):
    handle = handle_of(g, [8, 2, 4])
    getattr(g, op)(handle, np.int32([[0], [2]]), np.float32([2, 16]))
    assert read(g, handle).tolist() == [SCATTERS_ND[op](8, 2), 2, SCATTERS_ND[op](4, 16)]


def test_a_slice_is_set(g):
    handle = handle_of(g, [8, 2, 4])
    g.ResourceStridedSliceAssign(handle, np.int32([1]), np.int32([3]), np.int32([1]), [0.5, 1.5])
    assert read(g, handle).tolist() == [8, 0.5, 1.5]


def test_the_optimizers_of_newer_clients_have_their_ops():
    for name in ("GradientDescent", "Momentum", "Adagrad", "AdagradV2", "Adam", "RMSProp", "Ftrl"):
        assert f"ResourceApply{name}" in UPDATES
    for name in ("Momentum", "Adagrad", "RMSProp", "Ftrl", "Adadelta"):
        assert f"ResourceSparseApply{name}" in SPARSE


@pytest.mark.parametrize("op_type", UPDATES + SPARSE)
def test_updates_by_handle_do_what_updates_by_reference_do(g, op_type):
    reference = registry.lookup(op_type.removeprefix("Resource"))
    names = [arg.name for arg in reference.signature.inputs]
    refs = [arg.name for arg in reference.signature.inputs if arg.is_ref]
    given = {name: np.float32(0.1 + 0.05 * i) for i, name in enumerate(names) if name not in refs}
    if "lr_power" in given:
        given["lr_power"] = np.float32(-0.5)
    for name, dtype in (("global_step", np.int64), ("training_step_number", np.int64)):
        if name in given:
            given[name] = dtype(3)
    for name in ("grad", "delta", "gradient"):
        if name in given:
            given[name] = np.float32([0.25, -0.5])
    if "indices" in given:
        given["indices"] = np.int32([2, 0])
    elif any(name in given for name in ("grad", "delta", "gradient")):
        given = {k: np.float32([0.25, 0, -0.5]) if np.ndim(v) else v for k, v in given.items()}
    results = []
    for by_handle in (False, True):
        builder = EagerBuilder()
        variables = []
        for i, name in enumerate(refs):
            handle = handle_of(builder, [0.5 + i, 1.0, 2.0 + i], name)
            if not by_handle:
                handle = builder.VariableV2(name=name, shape=(3,), dtype=dtypes.float32)
            variables.append(handle)
        op = op_type if by_handle else reference.op_type
        getattr(builder, op)(*variables, *(given[name] for name in names if name not in refs))
        results.append([v.value.read().tolist() for v in variables])
    assert results[0] == results[1]
    assert results[0][0] != [0.5, 1.0, 2.0]


def test_counting_ends_at_its_limit(g):
    handle = g.VarHandleOp(shared_name="count", shape=(), dtype=dtypes.int64)
    g.AssignVariableOp(handle, np.int64(0))
    counts = [g.ResourceCountUpTo(handle, limit=2, T=dtypes.int64).value for _ in range(2)]
    assert counts == [0, 1]
    with pytest.raises(OutOfRangeError, match="Reached limit of 2"):
        g.ResourceCountUpTo(handle, limit=2, T=dtypes.int64)


def test_a_read_waits_for_an_update_of_another_step(g):
    handle = handle_of(g, np.zeros(3, np.float32))
    variable, found = handle.value, []

    def read():
        found.append(g.ReadVariableOp(handle, dtype=dtypes.float32).value)

    reader = threading.Thread(target=read)
    with variable.lock:
        variable.array[:2] = 1
        reader.start()
        reader.join(0.05)
        assert not found
        variable.array[2] = 1
    reader.join(60)
    np.testing.assert_array_equal(found[0], [1, 1, 1])
