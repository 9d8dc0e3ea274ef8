import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - Const is bound through the registry
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops import registry
from support.eager import EagerBuilder, EagerOperation


def bound(op, name, **attrs):
    node = EagerOperation(name, op, (), attrs)
    return registry.lookup(op).bind(node, EagerBuilder().context)


def test_const_gives_one_array_that_cannot_be_written_to():
    value = np.array([1.5, 2.5])
    kernel = bound("Const", "c", value=value, dtype=dtypes.float64)
    assert kernel() is kernel()
    assert np.shares_memory(kernel(), value)
    with pytest.raises(ValueError, match="read-only"):
        kernel()[0] = 3
    value[0] = 4  # the owner's array is unchanged


def test_const_keeps_strings():
    value = np.array([b"a", b"bc"], object)
    assert bound("Const", "c", value=value, dtype=dtypes.string)().tolist() == [b"a", b"bc"]


def test_const_refuses_a_value_of_another_dtype():
    with pytest.raises(
        InvalidArgumentError, match=r"^Const has dtype float32 but a value of float64$"
    ):
        EagerBuilder().Const(value=np.array(1.0), dtype=dtypes.float32)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((None, 3), " and shape [?,3]"), ((), ""), (None, ""), ((2,), " and shape [2]")],
)
def test_placeholder_must_be_fed(shape, expected):
    kernel = bound("Placeholder", "x", dtype=dtypes.float32, shape=shape)
    with pytest.raises(InvalidArgumentError) as error:
        kernel()
    assert error.value.message == (
        f"You must feed a value for placeholder tensor 'x' with dtype float{expected}"
    )


def test_prevented_gradient_says_why():
    g = EagerBuilder()
    x = g.tensor(np.array(1.0))
    y = g.PreventGradient(x, message="it is a secret")
    with pytest.raises(LookupError, match=r"Gradient explicitly disabled. Reason: it is a secret"):
        g.gradients([y], [x], [g.const(1.0, dtypes.float64)])


def test_no_gradient_flows_through_a_stopped_tensor():
    g = EagerBuilder()
    x = g.tensor(np.array(1.0))
    assert g.gradients([g.StopGradient(x)], [x], [g.const(1.0, dtypes.float64)]) == [None]


def test_gradient_of_identity_n_is_that_of_each_output():
    g = EagerBuilder()
    a, b = g.tensor(np.array(1.0)), g.tensor(np.array([2.0]))
    outputs = g.IdentityN([a, b])
    da, db = g.gradients(outputs, [a, b], [None, g.tensor(np.array([5.0]))])
    assert da is None
    assert db.value.tolist() == [5.0]


def test_checked_gradient_names_the_forward_message():
    g = EagerBuilder()
    x = g.tensor(np.array(1.0))
    y = g.CheckNumerics(x, message="loss")
    with pytest.raises(InvalidArgumentError) as error:
        g.gradients([y], [x], [g.tensor(np.array(np.nan))])
    assert error.value.message == (
        "Not a number (NaN) or infinity (Inf) values detected in gradient. "
        "loss : Tensor had NaN values"
    )


def test_no_op_has_no_outputs():
    assert EagerBuilder().NoOp().outputs == ()


@pytest.mark.parametrize("op", ["Placeholder", "PlaceholderWithDefault", "CheckNumerics"])
def test_what_must_run_in_every_step_is_not_folded_away(op):
    assert registry.lookup(op).stateful
