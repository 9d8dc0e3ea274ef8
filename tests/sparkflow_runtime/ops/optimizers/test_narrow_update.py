"""Updates of bfloat16 variables against those of float32, rounded afterwards."""

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.dtypes import bfloat16, float32, int64
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.native import equal_rows
from sparkflow_runtime.ops.optimizers import narrow_update
from sparkflow_runtime.ops.optimizers.other_rows import OTHER_ROWS, SLOTS_DECAY, ZERO_GRADIENT
from support.eager import EagerBuilder

NARROW = bfloat16.as_numpy_dtype
OPS = [
    op
    for op in registry.all_ops()
    if isinstance(op, narrow_update.NarrowUpdate) and op.outputs  # by reference
]
BY_HANDLE = [
    op for op in registry.all_ops() if isinstance(op, narrow_update.NarrowUpdate) and not op.outputs
]
INDICES = np.array([3, 7, 7, 0, 3])


def node_of(op, **given):
    given = {"T": bfloat16, "Tindices": int64, "rounding": "nearest", **given}
    attrs = {name: given.get(name, attr.default) for name, attr in op.signature.attrs.items()}
    return type("Node", (), {"name": "n", "op": op.op_type, "attrs": attrs})()


def inputs_of(op, shape, indices=INDICES):
    generator = np.random.default_rng(0)
    found = []
    for arg in op.signature.inputs:
        if arg.name == op.refs[0]:
            found.append((generator.random(shape) + 0.2).astype(NARROW))
        elif arg.is_ref:
            found.append((generator.random(shape) + 0.2).astype(np.float32))
        elif arg.name == "indices":
            found.append(indices)
        elif arg.name == "global_step":
            found.append(np.array(3, np.int64))
        elif arg.name == op.grad:
            rows = shape if op.indices_at is None else (len(indices), *shape[1:])
            found.append(generator.uniform(-0.1, 0.1, rows).astype(np.float32))
        else:
            value = -0.5 if arg.name == "lr_power" else generator.random() / 2 + 0.2
            found.append(np.float32(value))
    return found


def run(op, node, values):
    g = EagerBuilder()
    count = len(op.refs)
    variables = [g.variable(value.copy()).value for value in values[:count]]
    op.bind(node, g.context)(*variables, *values[count:])
    return [variable.array for variable in variables]


def wide_run(op, node, values):
    """The same by the op for float32, on rows that are summed and extracted."""
    twin, given = op.twin, dict(zip((a.name for a in op.signature.inputs), values, strict=True))
    grad, rows = given[op.grad], slice(None)
    if op.indices_at is not None:
        rows, grad = equal_rows.sum_duplicates(np, given["indices"], grad)
    wide = [given[name].astype(np.float32)[rows] for name in op.refs]
    others = [
        grad if arg.name == twin.grad else given[arg.name]
        for arg in twin.signature.inputs[len(wide) :]
    ]
    found = run(
        twin, node_of(twin, T=float32, **{f: node.attrs[f] for f in op.flags}), [*wide, *others]
    )
    held = [given[name].copy() for name in op.refs]
    for array, new in zip(held, found, strict=True):
        array[rows] = new.astype(array.dtype)
    return held


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.op_type)
@pytest.mark.parametrize("row", [(3,), (8,), (), (2, 3), (3, 2)])
@pytest.mark.parametrize("machine_code", [True, False])
def test_they_are_those_of_float32_rounded(monkeypatch, op, row, machine_code):
    if machine_code and not native.available():
        pytest.skip("makes machine code")
    if not machine_code:
        monkeypatch.setattr(native, "available", lambda: False)
    node, values = node_of(op), inputs_of(op, (12, *row))
    for found, expected in zip(run(op, node, values), wide_run(op, node, values), strict=True):
        assert found.dtype == expected.dtype
        eps = 1 / 256 if found.dtype == NARROW else 1e-6
        np.testing.assert_allclose(
            found.astype(np.float32), expected.astype(np.float32), rtol=eps, atol=1e-6
        )


@pytest.mark.parametrize(
    "op", [op for op in OPS if OTHER_ROWS in op.signature.attrs], ids=lambda op: op.op_type
)
@pytest.mark.parametrize("other_rows", [ZERO_GRADIENT, SLOTS_DECAY])
@pytest.mark.parametrize("shape", [(12, 8), (1200, 301)])
def test_other_rows_are_updated_for_a_gradient_of_zero(op, other_rows, shape):
    values = inputs_of(op, shape)
    dense = registry.lookup(op.op_type.replace("Sparse", ""))
    given = dict(zip((arg.name for arg in op.signature.inputs), values, strict=True))
    grad = np.zeros(shape, np.float32)
    np.add.at(grad, given["indices"], given["grad"])
    wide = [grad if arg.name == "grad" else given[arg.name] for arg in dense.signature.inputs]
    expected = run(dense, node_of(dense), wide)
    if other_rows == SLOTS_DECAY:
        others = np.setdiff1d(np.arange(shape[0]), INDICES)
        expected[0][others] = values[0][others]
    found = run(op, node_of(op, other_rows=other_rows), values)
    for name, array, wanted in zip(op.refs, found, expected, strict=True):
        assert array.dtype == wanted.dtype
        eps = 1 / 256 if array.dtype == NARROW else 1e-6
        np.testing.assert_allclose(
            array.astype(np.float32), wanted.astype(np.float32), eps, 1e-6, err_msg=name
        )


@pytest.mark.parametrize("op", BY_HANDLE, ids=lambda op: op.op_type)
def test_those_by_handle_do_what_those_by_reference_do(op):
    reference = registry.lookup(op.op_type.removeprefix(narrow_update.ON_HANDLE))
    assert reference in OPS
    node, values = node_of(reference), inputs_of(reference, (12, 8))
    for found, expected in zip(
        run(op, node_of(op), values), run(reference, node, values), strict=True
    ):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


def test_large_tables_are_updated_in_blocks():
    op = registry.lookup("NarrowApplyMomentum")
    values = inputs_of(op, (700, 301))
    for found, expected in zip(
        run(op, node_of(op), values), wide_run(op, node_of(op), values), strict=True
    ):
        np.testing.assert_allclose(
            found.astype(np.float32), expected.astype(np.float32), rtol=1 / 256, atol=1e-6
        )


@pytest.mark.parametrize("op_type", ["NarrowApplyAdagrad", "NarrowSparseApplyAdagrad"])
def test_a_seed_decides_where_chance_rounds(op_type):
    op = registry.lookup(op_type)
    values = inputs_of(op, (11, 64))

    def once(**given):
        return run(op, node_of(op, rounding="stochastic", **given), values)[0].astype(np.float32)

    np.testing.assert_array_equal(once(seed=1, seed2=2), once(seed=1, seed2=2))
    assert (once(seed=1, seed2=2) != once(seed=1, seed2=3)).any()
    assert (once() != once()).any()


def test_no_rows_and_empty_tables():
    op = registry.lookup("NarrowSparseApplyAdagrad")
    values = inputs_of(op, (11, 4), np.zeros(0, np.int64))
    np.testing.assert_array_equal(run(op, node_of(op), values)[0], values[0])
    dense = registry.lookup("NarrowApplyAdagrad")
    assert run(dense, node_of(dense), inputs_of(dense, (0, 4)))[0].shape == (0, 4)
