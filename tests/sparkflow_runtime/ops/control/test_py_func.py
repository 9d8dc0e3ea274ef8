"""PyFunc and PyFuncStateless: what they accept from Python functions, and what they reject."""

import gc

import numpy as np
import pytest

from sparkflow_runtime import dtypes, errors
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import not_differentiable
from sparkflow_runtime.resources.py_functions import PyFunction

KINDS = ["PyFunc", "PyFuncStateless"]


class Node:
    name = "f"

    def __init__(self, token, wanted):
        self.attrs = {"token": token, "Tin": [], "Tout": wanted}


def bound(function, wanted, kind="PyFunc"):
    kept = PyFunction(function)
    run = registry.lookup(kind).bind(Node(kept.token, wanted), None)
    return lambda *inputs: (kept, run(*inputs))[1]


@pytest.mark.parametrize("kind", KINDS)
def test_results_come_in_the_dtypes_asked_for(kind):
    call = bound(lambda a: (a + 1, "text"), [dtypes.float32, dtypes.string], kind)
    number, text = call(np.float32(1))
    assert (number, text.item()) == (2.0, b"text")
    assert registry.lookup(kind).stateful == (kind == "PyFunc")
    assert type(registry.lookup(kind)).gradient is not_differentiable


def test_another_dtype_is_refused():
    call = bound(lambda: np.float64(1), [dtypes.float32])
    with pytest.raises(errors.InvalidArgumentError, match="is float64, but expects float32"):
        call()


def test_another_number_of_results_is_refused():
    with pytest.raises(errors.InvalidArgumentError, match="returns 2 values, but expects to see 1"):
        bound(lambda: (1, 2), [dtypes.int32])()


@pytest.mark.parametrize("other", [None, float("nan"), 3, np.int64(3), True, [1], object()])
def test_texts_have_no_other_objects_among_them(other):
    given = np.empty(2, object)
    given[0], given[1] = "x", other
    text = f"Unsupported object type {type(other).__name__}: the 0-th value .* at position 1"
    with pytest.raises(errors.InternalError, match=text):
        bound(lambda: given, [dtypes.string])()


def test_texts_are_str_or_bytes():
    given = np.array(["ü", b"b", np.str_("c"), np.bytes_(b"d")], object)
    (found,) = bound(lambda: given, [dtypes.string])()
    assert found.tolist() == ["ü".encode(), b"b", b"c", b"d"]
    assert {type(each) for each in found} == {bytes}
    (found,) = bound(lambda: np.array([["a"], ["b"]]), [dtypes.string])()
    assert found.tolist() == [[b"a"], [b"b"]]


@pytest.mark.parametrize(
    ("given", "dtype", "text"),
    [
        (3, dtypes.string, "is int64, but expects string"),
        (np.array([1.5]), dtypes.string, "is float64, but expects string"),
        ("3", dtypes.int64, "is string, but expects int64"),
        (None, dtypes.string, "returns 0 values, but expects to see 1"),
        (None, dtypes.float32, "returns 0 values, but expects to see 1"),
    ],
)
def test_numbers_are_no_texts(given, dtype, text):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        bound(lambda: given, [dtype])()


@pytest.mark.parametrize(
    ("raised", "status"),
    [
        (ValueError, errors.InvalidArgumentError),
        (TypeError, errors.InvalidArgumentError),
        (StopIteration, errors.OutOfRangeError),
        (MemoryError, errors.ResourceExhaustedError),
        (NotImplementedError, errors.UnimplementedError),
        (KeyError, errors.UnknownError),
    ],
)
def test_exceptions_become_statuses(raised, status):
    def fail():
        raise raised("why")

    with pytest.raises(status, match="why"):
        bound(fail, [dtypes.int32])()


def test_a_function_lives_as_long_as_somebody_holds_it():
    kept = PyFunction(lambda: 1)
    run = registry.lookup("PyFunc").bind(Node(kept.token, [dtypes.int32]), None)
    assert run()[0] == 1
    token = kept.token
    del kept
    gc.collect()
    with pytest.raises(errors.InvalidArgumentError, match=f"no Python function '{token}'"):
        run()


def test_a_token_that_was_not_made_here_is_refused():
    run = registry.lookup("PyFunc").bind(Node("os.system", [dtypes.int32]), None)
    with pytest.raises(errors.InvalidArgumentError, match=r"has no Python function 'os.system'"):
        run(np.array(b"true"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_does_not_end_the_data(kind):
    def ends():
        raise errors.OutOfRangeError(message="of something else")

    with pytest.raises(errors.UnknownError, match="OutOfRangeError: of something else"):
        bound(ends, [dtypes.float32], kind)()
