"""Variables and assignments as ops."""

import dataclasses
import threading

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.device.shared_memory import SharedArena
from sparkflow_runtime.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    OutOfRangeError,
)
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.state import variable_ops
from sparkflow_runtime.resources.container import Resources
from sparkflow_runtime.resources.variable import Variable
from support.eager import EagerBuilder, EagerTensor

DEADLINE_S = 60


@pytest.fixture
def g():
    return EagerBuilder()


def new_variable(g, shape=(2,), dtype=dtypes.float32, name="v", **attrs):
    return g.VariableV2(name=name, shape=shape, dtype=dtype, **attrs)


class TestVariableV2:
    def test_steps_that_name_the_same_variable_share_it(self, g):
        first = new_variable(g)
        g.Assign(first, np.float32([1, 2]))
        again = new_variable(g)
        assert again.value is first.value
        assert again.static_shape == (2,)
        assert again.dtype is dtypes.float32.ref

    def test_shared_name_and_container_are_what_counts(self, g):
        named = new_variable(g, name="a", shared_name="w")
        assert new_variable(g, name="b", shared_name="w").value is named.value
        assert new_variable(g, name="w").value is named.value
        assert new_variable(g, name="w", container="other").value is not named.value
        assert named.value.name == "w"

    @pytest.mark.parametrize(
        ("shape", "dtype"), [((3,), dtypes.float32), ((2,), dtypes.float64), ((), dtypes.float32)]
    )
    def test_another_shape_or_dtype_is_refused(self, g, shape, dtype):
        new_variable(g)
        with pytest.raises(InvalidArgumentError, match=r"'v' exists on /job:localhost.*float32 \("):
            new_variable(g, shape=shape, dtype=dtype)

    def test_a_resource_of_another_kind_is_refused(self, g):
        g.resources.put("", "v", object())
        with pytest.raises(InvalidArgumentError, match="'v' is a object, not a Variable"):
            new_variable(g)

    def test_the_oldest_op_takes_an_empty_shape_for_unknown(self, g):
        ref = g.Variable(name="v", shape=(), dtype=dtypes.float32)
        assert ref.static_shape is None
        g.Assign(ref, np.float32([[1]]))
        assert ref.value.array.shape == (1, 1)


class TestIsVariableInitialized:
    def test_before_and_after_the_first_assignment(self, g):
        ref = new_variable(g)
        assert not g.IsVariableInitialized(ref).value
        g.Assign(ref, np.float32([1, 2]))
        assert g.IsVariableInitialized(ref).value


class TestAssign:
    def test_the_value_is_copied(self, g):
        value = np.float32([1, 2])
        ref = new_variable(g)
        result = g.Assign(ref, EagerTensor(value, dtypes.float32, (2,)))
        value[0] = 9
        assert result.value is ref.value
        np.testing.assert_array_equal(ref.value.array, [1, 2])

    def test_the_memory_stays_where_it_is(self, g):
        ref = g.variable(np.zeros(2))
        array = ref.value.array
        value = np.ones(2)
        g.Assign(ref, g.tensor(value))
        assert ref.value.array is array
        np.testing.assert_array_equal(array, [1, 1])

    def test_memory_is_contiguous_whatever_came(self, g):
        ref = new_variable(g, shape=(2, 3))
        g.Assign(ref, g.tensor(np.ones((3, 2), np.float32).T))
        assert ref.value.array.flags.c_contiguous

    @pytest.mark.parametrize("step", [1, -1])
    def test_a_variable_assigned_to_itself(self, g, step):
        ref = g.variable(np.arange(5.0))
        own = ref.value.array[::step]
        g.Assign(ref, EagerTensor(own, dtypes.float64, (5,)))
        np.testing.assert_array_equal(ref.value.array, np.arange(5.0)[::step])

    @pytest.mark.parametrize("dtype", sorted(dtypes.PLAIN, key=int), ids=lambda d: d.name)
    def test_every_dtype(self, g, dtype):
        ref = new_variable(g, dtype=dtype)
        g.Assign(ref, np.array([1, 0], dtype.numpy))
        assert ref.value.array.dtype == dtype.numpy
        np.testing.assert_array_equal(ref.value.array, np.array([1, 0], dtype.numpy))

    def test_strings(self, g):
        ref = new_variable(g, shape=(), dtype=dtypes.string)
        g.Assign(ref, EagerTensor(b"longer text", dtypes.string, ()))
        g.Assign(ref, EagerTensor(np.array(b"x", object), dtypes.string, ()))
        assert ref.value.read()[()] == b"x"

    def test_wrong_shapes_are_refused_at_construction(self, g):
        with pytest.raises(InvalidArgumentError) as caught:
            g.Assign(g.variable(np.ones((2, 3))), g.tensor(np.ones((2, 4))))
        assert str(caught.value) == (
            "the variable and the value must have the same shape, but the variable has shape "
            "(2, 3) and the value has shape (2, 4)"
        )

    @pytest.mark.parametrize("initialised", [False, True])
    def test_wrong_shapes_are_refused_at_run_time(self, g, initialised):
        ref = new_variable(g, shape=(None,) if initialised else (3,))
        if initialised:
            g.Assign(ref, np.float32([1, 2, 3]))
        value = g.tensor(np.float32([1, 2]), static_shape=None)
        with pytest.raises(InvalidArgumentError, match=r"lhs shape= \[3\] rhs shape= \[2\]"):
            g.Assign(ref, value)
        assert (ref.value.array is None) is not initialised

    def test_shapes_need_not_agree_where_they_are_not_validated(self, g):
        ref = g.variable(np.ones(3))
        result = g.Assign(ref, g.tensor(np.ones((2, 2))), validate_shape=False)
        assert result.static_shape == (2, 2)
        assert ref.value.array.shape == (2, 2)


class TestAssignAddAndSub:
    @pytest.mark.parametrize(("op", "expected"), [("AssignAdd", [4, 7]), ("AssignSub", [-2, -3])])
    @pytest.mark.parametrize("kind", [np.float32, np.int32, np.uint8, np.complex64])
    def test_in_place(self, g, op, expected, kind):
        ref = g.variable(np.array([1, 2], kind))
        array = ref.value.array
        result = getattr(g, op)(ref, g.tensor(np.array([3, 5], kind)))
        assert result.value is ref.value
        assert ref.value.array is array
        np.testing.assert_array_equal(array, np.array(expected).astype(kind))

    def test_scalars_stay_arrays(self, g):
        ref = g.variable(np.int64(1))
        array = ref.value.array
        g.AssignAdd(ref, np.int64(1))
        assert array == 2

    def test_uninitialised(self, g):
        with pytest.raises(FailedPreconditionError, match="uninitialized value v;"):
            g.AssignAdd(new_variable(g), np.float32([1, 2]))

    def test_wrong_shapes(self, g):
        ref = g.variable(np.ones(2))
        with pytest.raises(InvalidArgumentError, match=r"\(2,\) and the value has shape \(3,\)"):
            g.AssignAdd(ref, g.tensor(np.ones(3)))
        with pytest.raises(InvalidArgumentError, match=r"'variable' has shape \(2,\).*shape \(\)"):
            g.AssignSub(ref, g.tensor(np.ones(()), static_shape=None))

    def test_additions_from_many_threads_all_count(self):
        ref = Variable("v", dtypes.int64, (1000,))
        ref.array = np.zeros(1000, np.int64)
        add = registry.lookup("AssignAdd")
        ones = np.ones(1000, np.int64)
        start = threading.Barrier(4)

        def work():
            start.wait(DEADLINE_S)
            for _ in range(500):
                add.compute(np, ref, ones)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive()
        np.testing.assert_array_equal(ref.array, 2000)


class TestCountUpTo:
    def test_counts_and_ends(self, g):
        ref = g.variable(np.int32(3))
        assert g.CountUpTo(ref, limit=5).value == 3
        last = g.CountUpTo(ref, limit=5).value
        with pytest.raises(OutOfRangeError, match=r"Reached limit of 5: variable 'variable'"):
            g.CountUpTo(ref, limit=5)
        assert last == 4
        assert ref.value.array == 5

    def test_needs_a_scalar(self, g):
        with pytest.raises(InvalidArgumentError, match="must be rank 0 but is rank 1"):
            g.CountUpTo(g.variable(np.zeros(1, np.int32)), limit=5)


def test_ops_that_write_are_never_folded_or_merged():
    ops = [op for op in registry.all_ops() if type(op).__module__ == variable_ops.__name__]
    assert len(ops) == 10
    assert all(op.stateful for op in ops)


class TestTemporaryVariable:
    def test_it_lives_for_one_step(self, g):
        attrs = {"shape": (2,), "dtype": dtypes.float32, "var_name": "t"}
        ref = g.TemporaryVariable(**attrs)
        g.AssignAdd(ref, np.float32([1, 2]))
        value = g.DestroyTemporaryVariable(ref, var_name="t")
        assert value.value.tolist() == [1, 2]
        assert g.TemporaryVariable(**attrs).value.read().tolist() == [0, 0]

    def test_what_cannot_be(self, g):
        with pytest.raises(InvalidArgumentError, match="'v' needs a complete shape"):
            g.TemporaryVariable(shape=(None,), dtype=dtypes.float32, var_name="v")
        ref = g.TemporaryVariable(shape=(), dtype=dtypes.float32, var_name="v")
        with pytest.raises(InvalidArgumentError, match="destroy the temporary variable 'w'"):
            g.DestroyTemporaryVariable(ref, var_name="w")


def test_an_uninitialised_variable_has_its_initial_value(g):
    ref = new_variable(g)
    assert g.InitializedValue(ref, np.float32([1, 2])).value.tolist() == [1, 2]
    g.Assign(ref, np.float32([3, 4]))
    before = g.InitializedValue(ref, np.float32([1, 2])).value
    g.Assign(ref, np.float32([5, 6]))
    assert before.tolist() == [3, 4]


@pytest.mark.skipif(not SharedArena.available(), reason="needs memfd_create: Linux")
class TestSharedMemory:
    """The values of variables are stored where other processes of the host can map them."""

    SHAPE = (32, 64)

    @pytest.fixture
    def arena(self):
        made = SharedArena()
        yield made
        made.close()

    @pytest.fixture
    def g(self, arena):
        builder = EagerBuilder()
        builder.context = dataclasses.replace(builder.context, resources=Resources(arena))
        return builder

    def test_a_first_value_does(self, g, arena):
        ref = new_variable(g, self.SHAPE)
        value = np.ones(self.SHAPE, np.float32)
        g.Assign(ref, value)
        array = ref.value.read()
        assert arena.locate(array) is not None
        np.testing.assert_array_equal(array, value)
        g.AssignAdd(ref, value)
        g.Assign(ref, 3 * value)
        assert ref.value.read() is array

    def test_a_value_of_another_shape_does(self, g, arena):
        ref = new_variable(g, self.SHAPE)
        for rows in (32, 64):
            g.Assign(ref, np.full((rows, 64), rows, np.float32), validate_shape=False)
            assert arena.locate(ref.value.read()) is not None
            assert (ref.value.read() == rows).all()

    def test_that_of_a_handle_does(self, g, arena):
        handle = g.VarHandleOp(dtype=dtypes.float32, shape=self.SHAPE, shared_name="h")
        g.AssignVariableOp(handle, np.ones(self.SHAPE, np.float32))
        assert arena.locate(handle.value.read()) is not None

    def test_strings_do_not(self, g, arena):
        ref = new_variable(g, (1000,), dtypes.string)
        g.Assign(ref, np.full(1000, b"a", object))
        assert arena.locate(ref.value.read()) is None
        assert ref.value.read().tolist() == [b"a"] * 1000

    def test_a_value_with_gaps_becomes_one_without(self, g, arena):
        ref = new_variable(g, self.SHAPE)
        g.Assign(ref, np.arange(2048, dtype=np.float32).reshape(64, 32).T)
        assert ref.value.read().flags.c_contiguous
        assert arena.locate(ref.value.read()) is not None
