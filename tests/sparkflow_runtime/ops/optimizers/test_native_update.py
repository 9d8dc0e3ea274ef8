"""Updates by machine code, one by one and in groups, against those by numpy."""

import itertools
import threading

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.errors import FailedPreconditionError, InvalidArgumentError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.optimizers import (
    apply_gradient,
    native_update,
    update_group,
)
from support.eager import EagerBuilder

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")

OPS = [
    op
    for op in registry.all_ops()
    if isinstance(op, apply_gradient.DenseUpdate) and not op.names_handle_form
]
DENSE = [op for op in OPS if op.indices_at is None]
CASES = [
    pytest.param(
        op,
        dict(zip(sorted(op.flags), flags, strict=True)),
        power,
        id=f"{op.op_type}-{flags}-{power}",
    )
    for op in OPS
    for flags in itertools.product((False, True), repeat=len(op.flags))
    for power in ((-0.5, -0.3, 0.0) if "Ftrl" in op.op_type else (-0.5,))
]
"""Every rule with every combination of its flags; powers are those of FTRL."""
ROWS = 11
DEADLINE_S = 60


def inputs_of(op, dtype, shape, power=-0.5, seed=0):
    """Values of all arguments: arrays in (0.2, 1.2), scalars in (0.2, 0.7), rows twice."""
    generator = np.random.default_rng(seed)
    values = []
    for arg in op.signature.inputs:
        if arg.is_ref:
            value = generator.random(shape) + 0.2
        elif arg.name == "indices":
            values.append(generator.integers(0, shape[0], ROWS))
            continue
        elif arg.name in ("grad", "delta"):
            rows = (ROWS, *shape[1:]) if op.indices_at is not None else shape
            # A centred gradient's square is below the average of squares, as in real training.
            value = generator.uniform(-0.3, 0.3, rows)
        elif arg.name == "global_step":
            values.append(np.array(3, np.int64))
            continue
        else:
            value = power if arg.name == "lr_power" else generator.random() / 2 + 0.2
        values.append(np.asarray(value, dtype))
    if op.op_type.endswith("CenteredRMSProp"):
        values[1] *= dtype(0.1)
    return values


def node_of(op, dtype=dtypes.float32, **flags):
    attrs = {"T": dtype, "Tindices": dtypes.int64, "use_locking": False, **flags}
    attrs = {name: attrs.get(name, attr.default) for name, attr in op.signature.attrs.items()}
    return type("Node", (), {"name": "n", "op": op.op_type, "attrs": attrs})()


def variables_of(g, op, values):
    """Returns the values, with variables for references."""
    count = len(op.refs)
    return (*(g.variable(value.copy()).value for value in values[:count]), *values[count:])


def by_numpy(monkeypatch, op, node, inputs):
    g = EagerBuilder()
    with monkeypatch.context() as patch:
        patch.setattr(native, "available", lambda: False)
        kernel = op.bind(node, g.context)
    given = variables_of(g, op, inputs)
    kernel(*given)
    return [variable.array for variable in given[: len(op.refs)]]


def require_close(found, expected, op):
    for name, a, b in zip(op.refs, found, expected, strict=True):
        eps = np.finfo(b.dtype).eps
        np.testing.assert_allclose(a, b, rtol=20 * eps, atol=20 * eps, err_msg=name)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("op", "flags", "power"), CASES)
def test_every_rule_does_what_numpy_does(op, flags, power, dtype, monkeypatch):
    node = node_of(op, dtypes.as_dtype(dtype), **flags)
    for shape in ((), (7,), (40, 3), (33, 70)):
        if op.indices_at is not None and not shape:
            continue
        inputs = inputs_of(op, dtype, shape, power)
        run = native_update.bind(op, node.attrs["T"], node.attrs)
        arrays = [value.copy() for value in inputs[: len(op.refs)]]
        assert run(arrays, inputs) is True
        require_close(arrays, by_numpy(monkeypatch, op, node, inputs), op)


@pytest.mark.parametrize(
    "op", [op for op in OPS if "Proximal" in op.op_type], ids=lambda op: op.op_type
)
def test_no_proximal_step_without_l1(op, monkeypatch):
    inputs = inputs_of(op, np.float32, (40, 3))
    inputs[[arg.name for arg in op.signature.inputs].index("l1")][...] = 0
    node = node_of(op)
    arrays = [value.copy() for value in inputs[: len(op.refs)]]
    assert native_update.bind(op, dtypes.float32, node.attrs)(arrays, inputs)
    require_close(arrays, by_numpy(monkeypatch, op, node, inputs), op)


def test_scalars_may_be_numbers_and_gradients_have_any_strides(monkeypatch):
    op = registry.lookup("ApplyAdam")
    inputs = inputs_of(op, np.float32, (20, 30))
    inputs = [*inputs[:3], *(value[()] for value in inputs[3:-1]), inputs[-1].T.copy().T]
    node = node_of(op)
    arrays = [value.copy() for value in inputs[:3]]
    assert native_update.bind(op, dtypes.float32, node.attrs)(arrays, inputs)
    require_close(arrays, by_numpy(monkeypatch, op, node, inputs), op)


@pytest.mark.parametrize("op_type", ["ApplyMomentum", "SparseApplyMomentum"])
def test_shapes_that_do_not_fit_are_left_to_the_op(op_type):
    op = registry.lookup(op_type)
    run = native_update.bind(op, dtypes.float32, node_of(op).attrs)
    inputs = inputs_of(op, np.float32, (6, 4))
    for at in (1, op.grad_at):
        wrong = [*inputs]
        wrong[at] = wrong[at].reshape(4, -1)
        arrays = [value.copy() for value in wrong[:2]]
        assert run(arrays, wrong) is False
        np.testing.assert_array_equal(arrays[0], inputs[0])


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.complex64, dtypes.bfloat16])
def test_other_dtypes_are_left_to_numpy(dtype):
    op = registry.lookup("ApplyGradientDescent")
    assert native_update.bind(op, dtype, node_of(op, dtype).attrs) is None


def test_the_variables_are_locked_meanwhile(monkeypatch):
    op, g = registry.lookup("ApplyAdam"), EagerBuilder()
    inputs = variables_of(g, op, inputs_of(op, np.float32, (5,)))
    locked = []

    def bind(*_):
        return lambda arrays, inputs: locked.append([v.lock.locked() for v in inputs[:3]]) or True

    monkeypatch.setattr(native_update, "bind", bind)
    op.bind(node_of(op), g.context)(*inputs)
    assert locked == [[True] * 3]
    assert not any(variable.lock.locked() for variable in inputs[:3])


def test_large_variables_are_split_among_threads(monkeypatch):
    op = registry.lookup("ApplyAdam")
    inputs = inputs_of(op, np.float32, (1_000_003,))
    node = node_of(op)
    arrays = [value.copy() for value in inputs[:3]]
    assert native_update.bind(op, dtypes.float32, node.attrs)(arrays, inputs)
    require_close(arrays, by_numpy(monkeypatch, op, node, inputs), op)


class TestGroup:
    """`update_group`."""

    SIZES = ((), (1,), (3, 5), (1000,), (7, 40))

    def sets(self, g, op, power=-0.5):
        scalars = inputs_of(op, np.float32, (1,), power)
        made = []
        for seed, shape in enumerate(self.SIZES):
            values = inputs_of(op, np.float32, shape, power, seed)
            for i in op.scalars:
                values[i] = scalars[i]
            made.append(variables_of(g, op, values))
        return made

    @pytest.mark.parametrize(
        ("op", "flags", "power"), [param for param in CASES if param.values[0] in DENSE]
    )
    def test_does_what_its_nodes_do(self, op, flags, power, monkeypatch):
        g, node = EagerBuilder(), node_of(op, **flags)
        together, apart = self.sets(g, op, power), self.sets(g, op, power)
        kernel = op.bind(node, g.context)
        group = update_group.bind([node] * len(together), g.context)
        monkeypatch.setattr(group, "_kernels", ())  # no fallback
        group(together)
        count = len(op.refs)
        for found, inputs in zip(together, apart, strict=True):
            kernel(*inputs)
            require_close([v.array for v in found[:count]], [v.array for v in inputs[:count]], op)

    def test_follows_variables_that_get_other_shapes(self):
        op, g = registry.lookup("ApplyGradientDescent"), EagerBuilder()
        rate = np.array(1, np.float32)
        group = update_group.bind([node_of(op)] * 2, g.context)
        a, b = (g.variable(np.zeros(3, np.float32)).value for _ in range(2))
        for size in (3, 8):
            a.array = np.zeros(size, np.float32)
            group([(a, rate, np.ones(size, np.float32)), (b, rate, np.ones(3, np.float32))])
            np.testing.assert_array_equal(a.array, -np.ones(size))
        np.testing.assert_array_equal(b.array, np.full(3, -2))

    def test_raises_what_its_nodes_raise(self):
        op, g = registry.lookup("ApplyGradientDescent"), EagerBuilder()
        rate, ones = np.array(1, np.float32), np.ones(3, np.float32)
        group = update_group.bind([node_of(op)] * 2, g.context)
        a, b = (g.variable(np.zeros(3, np.float32)).value for _ in range(2))
        with pytest.raises(InvalidArgumentError, match="the gradient of shape"):
            group([(a, rate, ones), (b, rate, np.ones(2, np.float32))])
        np.testing.assert_array_equal(a.array, -ones)  # as if one were run after the other
        b.array = None
        with pytest.raises(FailedPreconditionError, match="uninitialized"):
            group([(a, rate, ones), (b, rate, ones)])
        assert not a.lock.locked()
        assert not b.lock.locked()

    def test_groups_that_share_variables_do_not_block_each_other(self):
        op, g = registry.lookup("ApplyGradientDescent"), EagerBuilder()
        rate, ones = np.array(1, np.float32), np.ones(100, np.float32)
        a, b = (g.variable(np.zeros(100, np.float32)).value for _ in range(2))
        start = threading.Barrier(2)

        def work(*variables):
            group = update_group.bind([node_of(op)] * 2, g.context)
            start.wait(DEADLINE_S)
            for _ in range(100):
                group([(variable, rate, ones) for variable in variables])

        workers = [threading.Thread(target=work, args=pair) for pair in ((a, b), (b, a))]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(DEADLINE_S)
            assert not worker.is_alive()
        np.testing.assert_array_equal(a.array, -200 * ones)
        np.testing.assert_array_equal(b.array, -200 * ones)

    def test_a_variable_that_is_there_twice_gets_both_updates(self):
        op, g = registry.lookup("ApplyGradientDescent"), EagerBuilder()
        rate, ones = np.array(1, np.float32), np.ones(100, np.float32)
        a, b = (g.variable(np.zeros(100, np.float32)).value for _ in range(2))
        group = update_group.bind([node_of(op)] * 3, g.context)
        ran = []
        group._kernels = [lambda *inputs: ran.append(inputs[0])] * 3
        group([(a, rate, ones), (b, rate, ones), (a, rate, ones)])
        assert ran == [a, b, a]

    def test_there_is_none_for_rows_nor_other_dtypes(self):
        g = EagerBuilder()
        rows = registry.lookup("SparseApplyMomentum")
        assert update_group.bind([node_of(rows)], g.context) is None
        whole = registry.lookup("ApplyMomentum")
        assert update_group.bind([node_of(whole, dtypes.float16)], g.context) is None
