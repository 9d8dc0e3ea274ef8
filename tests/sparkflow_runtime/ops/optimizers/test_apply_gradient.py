"""The ops that apply gradients, against TensorFlow's results, float64 formulas and each other."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.errors import FailedPreconditionError, InvalidArgumentError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.optimizers import (
    apply_gradient,
    update,
)
from sparkflow_runtime.ops.optimizers.other_rows import OTHER_ROWS, SLOTS_DECAY, ZERO_GRADIENT
from support.eager import EagerBuilder, EagerTensor

GOLDEN = Path(__file__).parents[3] / "golden" / "optimizers" / "apply.json"
CASES = json.loads(GOLDEN.read_text())
APPLY_OPS = [
    op.op_type
    for op in registry.all_ops()
    if isinstance(op, apply_gradient.DenseUpdate) and not op.names_handle_form
]
DECAYING = [name for name in APPLY_OPS if OTHER_ROWS in registry.lookup(name).attrs]
DEADLINE_S = 60


def float32(value):
    return np.array(value, np.float32)


def named_inputs(g, op_type, values):
    """Returns an op's inputs in order: tensors unchanged, everything else as placeholder values."""
    return [
        values[arg.name]
        if isinstance(values[arg.name], EagerTensor)
        else g.tensor(values[arg.name])
        for arg in registry.lookup(op_type).signature.inputs
    ]


def apply(g, op_type, values, **flags):
    return getattr(g, op_type)(*named_inputs(g, op_type, values), **flags)


def inputs_of(g, op_type, shape=(4, 2), rows=2, dtype=np.float32):
    """Variables of ones, scalars of 0.5, a gradient of twos."""
    values = {}
    for arg in registry.lookup(op_type).signature.inputs:
        if arg.is_ref:
            values[arg.name] = g.variable(np.ones(shape, dtype))
        elif arg.name == "indices":
            values[arg.name] = np.arange(rows, dtype=np.int64)
        elif arg.name in ("grad", "delta"):
            sparse = op_type.startswith("Sparse")
            values[arg.name] = np.full((rows, *shape[1:]) if sparse else shape, 2, dtype)
        elif arg.name == "global_step":
            values[arg.name] = np.int64(1)
        else:
            values[arg.name] = dtype(-0.5 if arg.name == "lr_power" else 0.5)
    return values


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['op']}-{case['name']}")
def test_five_steps_are_those_of_tensorflow(case):
    g = EagerBuilder()
    variables = {name: g.variable(float32(value)) for name, value in case["start"].items()}
    for step in case["steps"]:
        grad = registry.lookup(case["op"]).grad
        values = {**variables, grad: float32(step["grad"])}
        values |= {name: np.float32(value) for name, value in step["scalars"].items()}
        if "indices" in step:
            values["indices"] = np.array(step["indices"], np.int32)
        if "global_step" in step:
            values["global_step"] = np.int64(step["global_step"])
        apply(g, case["op"], values, **case["flags"])
    for name, expected in case["after"].items():
        np.testing.assert_allclose(
            variables[name].value.array, expected, rtol=2e-6, atol=1e-8, err_msg=name
        )


def test_every_apply_op_of_tensorflow_has_its_figures():
    """TensorFlow's optimizers with these rules update rows by several ops."""
    own = {f"SparseApply{rule}" for rule in ("Adam", "AdaMax", "AddSign", "PowerSign")}
    own.add("ApplyMovingAverage")  # several ops there, too
    assert {case["op"] for case in CASES} == set(APPLY_OPS) - own


def dense_update(g, op_type, values, **flags):
    """The update by a dense gradient, which is 0 in the rows without one."""
    indices, grad = values["indices"], values["grad"]
    dense = np.zeros(values["var"].value.array.shape, grad.dtype)
    np.add.at(dense, indices, grad)
    apply(g, op_type.removeprefix("Sparse"), {**values, "grad": dense}, **flags)


@pytest.mark.parametrize("op_type", DECAYING)
@pytest.mark.parametrize("other_rows", [ZERO_GRADIENT, SLOTS_DECAY])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(9,), (9, 4), (300, 5, 70)])
@pytest.mark.parametrize("indices", [[3, 1, 3, 7], []])
@pytest.mark.parametrize("machine_code", [True, False])
def test_other_rows_are_updated_for_a_gradient_of_zero(
    op_type, other_rows, kind, shape, indices, machine_code, monkeypatch
):
    if not machine_code:
        monkeypatch.setattr(native, "available", lambda: False)
    random = np.random.default_rng(2)
    g = EagerBuilder()
    given = inputs_of(g, op_type, shape, len(indices), kind)
    given["grad"] = random.standard_normal((len(indices), *shape[1:])).astype(kind)
    given["indices"] = np.array(indices, np.int64)
    starts = {
        name: (random.random(shape) + 0.5).astype(kind)
        for name, value in given.items()
        if isinstance(value, EagerTensor)
    }
    for nesterov in (False, True) if "Adam" in op_type else (False,):
        flags = {"use_nesterov": True} if nesterov else {}
        found = given | {name: g.variable(start.copy()) for name, start in starts.items()}
        wanted = given | {name: g.variable(start.copy()) for name, start in starts.items()}
        apply(g, op_type, found, other_rows=other_rows, **flags)
        dense_update(g, op_type, wanted, **flags)
        expected = {name: wanted[name].value.array for name in starts}
        if other_rows == SLOTS_DECAY:
            others = np.setdiff1d(np.arange(shape[0]), indices)
            expected["var"][others] = starts["var"][others]
        for name in starts:
            eps = np.finfo(kind).eps
            np.testing.assert_allclose(
                found[name].value.array, expected[name], rtol=8 * eps, atol=8 * eps, err_msg=name
            )


@pytest.mark.parametrize("op_type", DECAYING)
def test_nothing_changes_if_an_update_of_all_rows_is_refused(op_type):
    g = EagerBuilder()
    for wrong in ({"indices": np.array([0, 4])}, {"grad": np.ones((2, 3), np.float32)}):
        values = {**inputs_of(g, op_type), **wrong}
        with pytest.raises(InvalidArgumentError):
            apply(g, op_type, values, other_rows=ZERO_GRADIENT)
        for value in values.values():
            if isinstance(value, EagerTensor):
                np.testing.assert_array_equal(value.value.array, np.ones((4, 2)))


def test_adam_is_the_paper_s_formula_in_float64():
    random = np.random.default_rng(1)
    g = EagerBuilder()
    theta, m, v = random.standard_normal((3, 7))
    v = v**2
    grad = random.standard_normal(7)
    var, m_var, v_var = g.variable(theta), g.variable(m), g.variable(v)
    b1, b2, lr, eps, t = 0.9, 0.99, 0.1, 1e-3, 3
    g.ApplyAdam(var, m_var, v_var, b1**t, b2**t, lr, b1, b2, eps, g.tensor(grad))
    m = b1 * m + (1 - b1) * grad
    v = b2 * v + (1 - b2) * grad**2
    expected = theta - lr * np.sqrt(1 - b2**t) / (1 - b1**t) * m / (np.sqrt(v) + eps)
    np.testing.assert_allclose(var.value.array, expected, rtol=1e-12)
    np.testing.assert_allclose(m_var.value.array, m, rtol=1e-12)
    np.testing.assert_allclose(v_var.value.array, v, rtol=1e-12)


def test_momentum_of_complex_numbers():
    g = EagerBuilder()
    var, accum = g.variable(np.array([1 + 1j])), g.variable(np.array([2j]))
    g.ApplyMomentum(var, accum, 0.5, g.tensor(np.array([3 + 0j])), 0.5)
    assert accum.value.array == [3 + 1j]
    assert var.value.array == [1 + 1j - 0.5 * (3 + 1j)]


@pytest.mark.parametrize("op_type", APPLY_OPS)
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_every_dtype_is_updated_in_place_and_kept(op_type, kind):
    g = EagerBuilder()
    values = inputs_of(g, op_type, dtype=kind)
    array = values["var"].value.array
    result = apply(g, op_type, values)
    assert result.value is values["var"].value
    assert result.value.array is array
    assert array.dtype == kind
    assert not np.array_equal(array, np.ones((4, 2)))


@pytest.mark.parametrize("op_type", APPLY_OPS)
def test_inputs_are_left_alone(op_type):
    g = EagerBuilder()
    values = inputs_of(g, op_type)
    before = {k: v.copy() for k, v in values.items() if not isinstance(v, EagerTensor)}
    apply(g, op_type, values)
    for name, value in before.items():
        np.testing.assert_array_equal(values[name], value)


@pytest.mark.parametrize("op_type", [op for op in APPLY_OPS if op.startswith("Sparse")])
def test_rows_that_repeat_are_summed_and_applied_once(op_type):
    random = np.random.default_rng(2)
    grads = random.standard_normal((4, 2)).astype(np.float32)
    g = EagerBuilder()
    repeated = {**inputs_of(g, op_type), "indices": np.array([3, 1, 3, 3]), "grad": grads}
    summed = {**inputs_of(g, op_type), "indices": np.array([1, 3])}
    summed["grad"] = np.stack([grads[1], grads[0] + grads[2] + grads[3]])
    apply(g, op_type, repeated)
    apply(g, op_type, summed)
    for name, tensor in repeated.items():
        if isinstance(tensor, EagerTensor):
            np.testing.assert_allclose(tensor.value.array, summed[name].value.array, rtol=1e-6)


@pytest.mark.parametrize("op_type", [op for op in APPLY_OPS if op.startswith("Sparse")])
def test_no_rows_change_nothing(op_type):
    g = EagerBuilder()
    values = inputs_of(g, op_type, rows=0)
    apply(g, op_type, values)
    np.testing.assert_array_equal(values["var"].value.array, np.ones((4, 2)))


@pytest.mark.parametrize("op_type", [op for op in APPLY_OPS if not op.startswith("Sparse")])
@pytest.mark.parametrize("shape", [(), (0, 3)])
def test_scalars_and_empty_variables(op_type, shape):
    g = EagerBuilder()
    values = inputs_of(g, op_type, shape=shape)
    apply(g, op_type, values)
    assert values["var"].value.array.shape == shape
    assert (values["var"].value.array != 1).all()


def test_large_variables_are_updated_block_by_block_with_any_strides(monkeypatch):
    monkeypatch.setattr(update, "BLOCK_ELEMENTS", 7)
    random = np.random.default_rng(3)
    start, grad = random.standard_normal((2, 5, 6))
    g = EagerBuilder()
    var, accum = g.variable(start), g.variable(np.zeros((5, 6)))
    g.ApplyMomentum(var, accum, 0.1, g.tensor(np.asfortranarray(grad)), 0.9)
    np.testing.assert_allclose(var.value.array, start - 0.1 * grad, rtol=1e-12)
    np.testing.assert_array_equal(accum.value.array, grad)


def test_a_gradient_that_is_the_variable_itself():
    g = EagerBuilder()
    var = g.variable(np.array([4.0, 8.0]))
    g.ApplyGradientDescent(var, 0.25, EagerTensor(var.value.array, dtypes.float64, (2,)))
    np.testing.assert_array_equal(var.value.array, [3.0, 6.0])


@pytest.mark.parametrize("op_type", APPLY_OPS)
def test_uninitialised_variables_are_named(op_type):
    refs = [a.name for a in registry.lookup(op_type).signature.inputs if a.is_ref]
    for name in refs:
        g = EagerBuilder()
        values = inputs_of(g, op_type)
        values[name].value.array = None
        values[name].value.name = f"layer/{name}"
        with pytest.raises(FailedPreconditionError, match=f"uninitialized value layer/{name}"):
            apply(g, op_type, values)
        others = [values[ref].value.array for ref in refs if ref != name]
        assert all((array == 1).all() for array in others)


@pytest.mark.parametrize("op_type", APPLY_OPS)
def test_a_failed_update_leaves_no_lock_behind(op_type):
    g = EagerBuilder()
    values = inputs_of(g, op_type)
    values["var"].value.array = None
    with pytest.raises(FailedPreconditionError):
        apply(g, op_type, values)
    locks = [v.value.lock for v in values.values() if isinstance(v, EagerTensor)]
    assert not any(lock.locked() for lock in locks)


def test_wrong_shapes_are_refused_at_construction():
    g = EagerBuilder()
    var = g.variable(np.ones((2, 3)))
    with pytest.raises(InvalidArgumentError) as caught:
        g.ApplyGradientDescent(var, 0.1, g.tensor(np.ones((3, 2))))
    assert str(caught.value) == (
        "Dimension 0 in both shapes must be equal, but are 2 and 3. Shapes are [2,3] and [3,2]. "
        "ApplyGradientDescent needs a gradient of shape (2, 3) for a variable of shape (2, 3), "
        "got (3, 2)"
    )
    with pytest.raises(InvalidArgumentError, match=r"var has shape \(2, 3\) and accum has shape"):
        g.ApplyMomentum(var, g.variable(np.ones(3)), 0.1, g.tensor(np.ones((2, 3))), 0.9)
    with pytest.raises(InvalidArgumentError, match=r"must be rank 0 but is rank 1: lr"):
        g.ApplyMomentum(var, var, g.tensor(np.ones(1)), g.tensor(np.ones((2, 3))), 0.9)
    with pytest.raises(InvalidArgumentError, match=r"gradient of shape \(4, 3\).*got \(4, 2\)"):
        g.SparseApplyAdagrad(
            var, var, 0.1, g.tensor(np.ones((4, 2))), g.tensor(np.zeros(4, np.int32))
        )
    scalar = g.variable(1.0)
    with pytest.raises(InvalidArgumentError, match="needs a variable with rows"):
        g.SparseApplyAdagrad(
            scalar, scalar, 0.1, g.tensor(np.float32([1])), g.tensor(np.zeros(1, np.int32))
        )


def test_wrong_shapes_are_refused_at_run_time():
    g = EagerBuilder()

    def of_unknown_shape(tensor):
        return EagerTensor(tensor.value, tensor.dtype, None)

    var = of_unknown_shape(g.variable(np.ones((2, 3))))
    grad = g.tensor(np.ones((3, 2)), static_shape=None)
    with pytest.raises(InvalidArgumentError, match=r"shape \(2, 3\).*the gradient of shape \(3, 2"):
        g.ApplyGradientDescent(var, 0.1, grad)
    accum = of_unknown_shape(g.variable(np.ones(3)))
    with pytest.raises(InvalidArgumentError, match=r"shape \(3,\).*its variable of shape \(2, 3\)"):
        g.ApplyMomentum(var, accum, 0.1, grad, 0.9)
    indices = g.tensor(np.zeros(3, np.int64))
    with pytest.raises(
        InvalidArgumentError, match=r"gradient of shape \(3, 3\).*gradient \(3, 2\)"
    ):
        g.SparseApplyAdagrad(var, var, 0.1, grad, indices)


def test_rows_outside_the_variable_are_refused_before_anything_changes():
    g = EagerBuilder()
    values = inputs_of(g, "SparseApplyAdagrad")
    values["indices"] = np.array([0, 4])
    with pytest.raises(InvalidArgumentError, match=r"indices\[1\] = 4 is not in \[0, 4\)"):
        apply(g, "SparseApplyAdagrad", values)
    np.testing.assert_array_equal(values["var"].value.array, np.ones((4, 2)))


@pytest.mark.parametrize("op_type", APPLY_OPS)
def test_variable_and_slots_are_locked_while_they_are_updated(op_type, monkeypatch):
    g = EagerBuilder()
    values = inputs_of(g, op_type)
    locks = [v.value.lock for v in values.values() if isinstance(v, EagerTensor)]
    op_class, held = type(registry.lookup(op_type)), []
    rule = op_class.rule

    def watching(*args, **named):
        held.append(all(lock.locked() for lock in locks))
        return rule(*args, **named)

    monkeypatch.setattr(op_class, "rule", watching)
    monkeypatch.setattr(native, "available", lambda: False)
    apply(g, op_type, values)
    assert held == [True]


def test_updates_from_many_threads_all_count():
    g = EagerBuilder()
    var = g.variable(np.zeros(50_000))
    op = registry.lookup("ApplyGradientDescent")
    attrs = {"T": dtypes.float64, "use_locking": False}
    node = type("Node", (), {"name": "n", "op": op.op_type, "attrs": attrs})()
    kernel = op.bind(node, g.context)
    start = threading.Barrier(4)

    def work():
        start.wait(DEADLINE_S)
        for _ in range(50):
            kernel(var.value, np.float64(1.0), np.full(50_000, -1.0))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    np.testing.assert_array_equal(var.value.array, 200.0)


def test_variables_locked_in_opposite_orders_do_not_block_each_other():
    g = EagerBuilder()
    a, b = (g.variable(np.ones(1000)).value for _ in range(2))
    op = registry.lookup("ApplyMomentum")
    attrs = {"T": dtypes.float32, "use_nesterov": False}
    node = type("Node", (), {"name": "n", "op": "", "attrs": attrs})()
    kernel = op.bind(node, g.context)
    start = threading.Barrier(2)

    def work(first, second):
        start.wait(DEADLINE_S)
        for _ in range(300):
            kernel(first, second, np.float64(0), np.zeros(1000), np.float64(1))

    threads = [threading.Thread(target=work, args=pair, daemon=True) for pair in ((a, b), (b, a))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
    kernel(a, a, np.float64(0), np.zeros(1000), np.float64(1))  # the same one twice
