import inspect

import pytest

import sparkflow as tf
from sparkflow.profiler.float_operations import float_operations
from sparkflow.ragged.reducing import reduced
from sparkflow_runtime import dtypes
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.ops.signature import int_attr, type_attr


class AddTimes(Op):
    """a + times * b."""

    inputs = "a: T, b: T"
    outputs = "sum: T"
    attrs = {"T": type_attr(frozenset({dtypes.float32})), "times": int_attr(1)}  # noqa: RUF012
    kernels = {"CPU": None}  # noqa: RUF012

    def infer(self, node):
        return [node.shapes[0]]

    def compute(self, xp, a, b, *, times):
        return a + xp.float32(times) * b


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    with tf.Graph().as_default():
        monkeypatch.setattr(registry, "_OPS", {op.op_type: op for op in registry.all_ops()})
        yield


def test_an_op_becomes_a_function_with_its_signature():
    add_times = tf.register_op(AddTimes)
    assert add_times.__name__ == "add_times"
    assert str(inspect.signature(add_times)) == "(a, b, *, times=1, name=None)"
    y = add_times([1.0, 2.0], b=[1.0, 1.0], times=3, name="mine")
    assert y.op.type == "AddTimes"
    assert (y.name, y.shape.as_list()) == ("mine:0", [2])
    with tf.Session() as session:
        assert session.run(y).tolist() == [4.0, 5.0]


def test_wrong_calls_and_classes_are_refused():
    add_times = tf.register_op(AddTimes)
    with pytest.raises(TypeError, match="missing a required argument: 'b'"):
        add_times([1.0])
    with pytest.raises(TypeError, match="not in list of allowed values"):
        add_times([1], [2])
    with pytest.raises(tf.errors.AlreadyExistsError, match="AddTimes"):
        tf.register_op(AddTimes)
    with pytest.raises(TypeError, match="takes a subclass of"):
        tf.register_op(int)
    with pytest.raises(TypeError, match="must define infer and compute"):
        tf.register_op(type("Empty", (Op,), {"outputs": "y: int32"}))
    with pytest.raises(ValueError, match="must say stateful = True"):
        tf.register_op(type("Changes", (AddTimes,), {"inputs": "a: Ref(T), b: T"}))
    with pytest.raises(ValueError, match="is no op type"):
        tf.register_op(type("Lower", (AddTimes,), {"type": "lower"}))


def test_a_process_without_the_op_says_what_to_do():
    definition = None
    with tf.Graph().as_default() as graph:
        tf.register_op(AddTimes)(tf.constant(1.0), tf.constant(2.0))
        definition = graph.as_graph_def()
    del registry._OPS["AddTimes"]
    with pytest.raises(Exception, match="AddTimes"):
        tf.import_graph_def(definition)
    with pytest.raises(tf.errors.NotFoundError, match="must be registered"):
        registry.lookup("AddTimes")


def test_a_missing_kernel_is_told_with_those_there_are():
    tf.register_op(AddTimes)
    with pytest.raises(tf.errors.UnimplementedError, match="Registered kernels: CPU"):
        registry.require_kernel(registry.lookup("AddTimes"), "GPU", {"T": dtypes.float32})


def test_a_wrong_trait_is_refused_at_once():
    with pytest.raises(ValueError, match=r"AddTimes\.aliases names 'z'"):
        tf.register_op(type("AddTimes", (AddTimes,), {"aliases": frozenset({"z"})}))
    with pytest.raises(TypeError, match=r"AddTimes\.commutative must be True or False"):
        tf.register_op(type("AddTimes", (AddTimes,), {"commutative": "yes"}))
    assert not registry.contains("AddTimes")


def test_own_ops_take_part_where_ops_are_looked_at():
    class OwnCheck(Op):
        inputs = "x: T"
        outputs = "y: T"
        attrs = {"T": type_attr(frozenset({dtypes.float32}))}  # noqa: RUF012
        checks = True
        flops = 3

        def infer(self, node):
            return [node.shapes[0]]

        def compute(self, xp, x):
            return x

    class OwnLength(OwnCheck):
        checks = False
        elementwise = True
        flops = 0

        def float_operations(self, node, outputs):
            return 7 if node.shapes[0] else 0

    class OwnSum(OwnCheck):
        inputs = "x: T, axes: int32"
        checks = False
        reduction = True
        by_segment = "UnsortedSegmentSum"

    class OwnPlain(OwnCheck):
        checks = False

    check, length, _, plain = map(tf.register_op, (OwnCheck, OwnLength, OwnSum, OwnPlain))
    ragged = tf.ragged.constant([[1.0, 2.0], [3.0]])
    with tf.Session() as session:
        for through in (check, length):
            assert session.run(through(ragged)).to_list() == [[1.0, 2.0], [3.0]]
        assert session.run(reduced("OwnSum", ragged, 1, None, None)).tolist() == [3.0, 3.0]
    with pytest.raises(TypeError, match="does not take ragged"):
        plain(ragged)
    with pytest.raises(TypeError, match="does not reduce ragged"):
        reduced("OwnPlain", ragged, 1, None, None)
    x = tf.placeholder(tf.float32, [2, 5], name="x")
    made = check(x, name="check"), length(x)
    assert [float_operations(each.op) for each in made] == [30, 7]
    tf.identity(made[0], name="out")
    definition = tf.get_default_graph().as_graph_def()
    left = tf.graph_util.remove_training_nodes(definition, ["out"])
    assert "check" not in {node.name for node in left.node}
