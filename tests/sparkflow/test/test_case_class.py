"""`tf.test.TestCase` as used by tests written for TensorFlow 1."""

import subprocess
import sys
import unittest

import numpy as np
import pytest

import sparkflow as tf


class Case(tf.test.TestCase):
    """Its methods are called by the tests below; `run_case` runs one like unittest."""

    __test__ = False

    def runTest(self):
        pass


@pytest.fixture
def case():
    case = Case()
    case.setUp()
    yield case
    case.tearDown()


def run_case(body):
    class One(tf.test.TestCase):
        __test__ = False

        def testBody(self):
            body(self)

    result = unittest.TestResult()
    One("testBody").run(result)
    return result


def test_test_session_is_the_default_one(case):
    with case.test_session() as session:
        assert tf.get_default_session() is session
        case.assertAllEqual(tf.square([2, 3]).eval(), [4, 9])
        assert tf.constant(1).device.endswith("CPU:0")
    with case.test_session(use_gpu=True) as again:
        assert again is session
        assert tf.constant(1).device == ""


def test_session_with_a_graph_is_its_own(case):
    graph = tf.Graph()
    with case.session(graph=graph) as session:
        assert session.graph is graph
        assert tf.get_default_graph() is graph
    with pytest.raises(RuntimeError, match="closed Session"):
        session.run("x:0")


def test_cached_session_refuses_another_graph(case):
    with case.cached_session():
        pass
    with pytest.raises(ValueError, match="graph used to get the cached session"):
        case.cached_session(graph=tf.Graph()).__enter__()


def test_every_test_starts_with_the_same_seeds():
    seen = []

    def body(self):
        seen.append((tf.get_default_graph(), tf.get_default_graph().seed, np.random.rand()))
        with self.test_session():
            seen.append(tf.random_uniform([]).eval())

    for _ in range(2):
        result = run_case(body)
        assert not result.errors
    assert seen[0][0] is not seen[2][0]
    assert seen[0][1:] == seen[2][1:]
    assert seen[0][1] == 87654321
    assert seen[1] == seen[3]


def test_a_test_may_reset_its_graph_inside_a_graph_of_its_runner():
    def body(self):
        tf.constant(1)
        tf.reset_default_graph()
        assert not tf.get_default_graph().get_operations()

    with tf.Graph().as_default() as outer:
        result = run_case(body)
        assert tf.get_default_graph() is outer
    assert result.wasSuccessful(), result


def test_evaluate_needs_no_session(case):
    assert case.evaluate({"a": tf.constant(1) + 1})["a"] == 2


def test_all_close_walks_structures(case):
    case.assertAllClose({"a": [1.0, (2.0, [3.0])]}, {"a": [1.0, (2.0, tf.constant([3.0]))]})
    case.assertAllClose([[1, 2], [3]], [[1, 2], [3]])
    with pytest.raises(AssertionError, match=r"\[a\]"):
        case.assertAllClose({"a": 1.0}, {"a": 1.1})
    with pytest.raises(AssertionError, match="Shape mismatch"):
        case.assertAllClose([1.0], [[1.0]])
    with pytest.raises(AssertionError, match="mismatched keys"):
        case.assertAllClose({"a": 1}, {"b": 1})
    with pytest.raises(ValueError, match="non-dict"):
        case.assertAllClose({"a": 1}, [1])
    case.assertNotAllClose(1.0, 1.1)
    with pytest.raises(AssertionError):
        case.assertNotAllClose(1.0, 1.0)


def test_all_close_according_to_type(case):
    case.assertAllCloseAccordingToType(np.float16([1.0]), np.float16([1.001]))
    with pytest.raises(AssertionError):
        case.assertAllCloseAccordingToType(np.float64([1.0]), np.float64([1.001]))


def test_all_equal(case):
    case.assertAllEqual([float("nan"), 1], tf.constant([float("nan"), 1]))
    case.assertAllEqual(["a", b"b"], np.array([b"a", b"b"], object))
    case.assertAllEqual(np.array([[]]), np.zeros((1, 0)))
    with pytest.raises(AssertionError, match=r"first at index \[1\]"):
        case.assertAllEqual([1, 2], [1, 3])
    case.assertNotAllEqual([1], [2])
    with pytest.raises(AssertionError):
        case.assertNotAllEqual([1], [1])


def test_ranges_and_sets(case):
    case.assertAllGreater([2, 3], 1)
    case.assertAllGreaterEqual([1, 3], 1)
    case.assertAllLess([0, -1], 1)
    case.assertAllLessEqual([0, 1], 1)
    case.assertAllInRange([1, 2], 1, 2)
    case.assertAllInSet(tf.constant([1, 2]), {1, 2, 3})
    for fails in (
        lambda: case.assertAllGreater([1, 3], 1),
        lambda: case.assertAllLess([1, 3], 3),
        lambda: case.assertAllInRange([1, 2], 1, 2, open_upper_bound=True),
        lambda: case.assertAllInRange([1, 2], 1, 2, open_lower_bound=True),
        lambda: case.assertAllInSet([4], {1}),
    ):
        with pytest.raises(AssertionError):
            fails()


def test_near(case):
    case.assertNear(1.0, 1.05, 0.1)
    case.assertArrayNear([1, 2], [1.01, 2], 0.1)
    case.assertNDArrayNear(np.ones(2), np.ones(2) * 1.01, 0.1)
    for fails in (
        lambda: case.assertNear(1.0, 1.2, 0.1),
        lambda: case.assertArrayNear([1], [1, 2], 0.1),
        lambda: case.assertArrayNear([1], [2], 0.1),
        lambda: case.assertNDArrayNear(np.ones(2), np.zeros(2), 0.1),
    ):
        with pytest.raises(AssertionError):
            fails()


def test_shape_and_dtype(case):
    case.assertShapeEqual(np.zeros((2, 3)), tf.zeros([2, 3]))
    case.assertDTypeEqual(tf.zeros([2], tf.int64), tf.int64)
    case.assertDTypeEqual([np.zeros(1, np.float16)], np.float16)
    with pytest.raises(AssertionError):
        case.assertShapeEqual(np.zeros((3, 2)), tf.zeros([2, 3]))
    with pytest.raises(AssertionError):
        case.assertDTypeEqual(np.zeros(1), tf.float32)
    with pytest.raises(TypeError, match="numpy arrays and tensors"):
        case.assertShapeEqual([1], tf.zeros([1]))


def test_errors_are_matched_by_text_or_predicate(case):
    x = tf.placeholder(tf.int32)
    with case.test_session(), case.assertRaisesOpError("must feed a value"):
        tf.identity(x).eval()
    with case.assertRaisesWithPredicateMatch(ValueError, lambda e: "two" in str(e)):
        raise ValueError("two")
    case.assertRaisesWithPredicateMatch(ValueError, "invalid literal", int, "x")
    with case.assertRaisesRegexp(ValueError, "b+"):
        raise ValueError("abba")
    with pytest.raises(AssertionError, match="not raised"), case.assertRaisesOpError("x"):
        pass
    with pytest.raises(AssertionError, match="does not match"), case.assertRaisesOpError("x"):
        raise ValueError("x")


def test_old_spellings(case):
    case.assertEquals(1, 1)
    case.assertItemsEqual([1, 2], [2, 1])
    case.assertRegexpMatches("abc", "b")
    case.assertStartsWith("abc", "a")
    case.assertDictContainsSubset({"a": 1}, {"a": 1, "b": 2})
    with pytest.raises(AssertionError):
        case.assertDictContainsSubset({"a": 2}, {"a": 1, "b": 2})
    case.assert_(True)


def test_devices_in_any_spelling(case):
    case.assertDeviceEqual("/cpu:0", "/device:CPU:0")
    case.assertDeviceEqual(None, "")
    with pytest.raises(AssertionError):
        case.assertDeviceEqual("/cpu:0", "/cpu:1")


def test_messages_in_text_format(case):
    node = tf.NodeDef(name="a", op="Const")
    case.assertProtoEquals("name: 'a' op: 'Const'", node)
    with pytest.raises(AssertionError):
        case.assertProtoEquals("name: 'b'", node)
    with pytest.raises(AssertionError, match="Can't compare"):
        case.assertProtoEquals(tf.ConfigProto(), node)


def test_checked_threads_report_what_they_raised(case):
    thread = case.checkedThread(target=int, args=("7",))
    thread.start()
    thread.join()
    failing = case.checkedThread(target=int, args=("x",))
    failing.start()
    with pytest.raises(AssertionError, match="invalid literal"):
        failing.join()


def test_a_thread_that_is_not_joined_fails_the_test():
    def body(self):
        thread = self.checkedThread(target=int, args=("7",))
        thread.start()

    assert run_case(body).failures


def test_temp_dir_lives_as_long_as_the_test():
    import os

    seen = []

    def body(self):
        seen.append(self.get_temp_dir())
        assert os.path.isdir(seen[0])
        assert self.get_temp_dir() == seen[0]

    assert not run_case(body).errors
    assert not os.path.exists(seen[0])


def test_gradient_check(case):
    x = tf.placeholder(tf.float64, [2, 3])
    w = tf.constant(np.arange(6.0).reshape(3, 2))
    y = tf.square(tf.matmul(x, w))
    with case.test_session():
        theoretical, numerical = tf.test.compute_gradient(x, [2, 3], y, [2, 2])
        assert theoretical.shape == (6, 4)
        np.testing.assert_allclose(theoretical, numerical, rtol=1e-4, atol=1e-6)
        assert tf.test.compute_gradient_error(x, [2, 3], y, [2, 2]) < 1e-6
        assert tf.test.compute_gradient_error([x, w], [[2, 3], [3, 2]], y, [2, 2]) < 1e-5
        wrong = y + tf.stop_gradient(y)
        assert tf.test.compute_gradient_error(x, [2, 3], wrong, [2, 2]) > 0.1
        rows = tf.gather(w, [0, 2, 0])
        assert tf.test.compute_gradient_error(w, [3, 2], rows, [3, 2]) < 1e-6


def test_gradient_check_needs_a_session():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="default session"):
        x = tf.placeholder(tf.float32, [1])
        tf.test.compute_gradient(x, [1], x * 2, [1])


def test_equal_graphs():
    def graph(value, name="c"):
        with tf.Graph().as_default() as g:
            tf.identity(tf.constant(value, name=name))
        return g.as_graph_def()

    tf.test.assert_equal_graph_def(graph(1), graph(1))
    with pytest.raises(AssertionError, match="node c differs"):
        tf.test.assert_equal_graph_def(graph(2), graph(1))
    with pytest.raises(AssertionError, match="missing nodes"):
        tf.test.assert_equal_graph_def(graph(1, "d"), graph(1))
    with pytest.raises(TypeError, match="GraphDefs"):
        tf.test.assert_equal_graph_def(graph(1), "x")


def test_local_cluster_computes():
    workers, servers = tf.test.create_local_cluster(num_workers=1, num_ps=1)
    assert len(servers) == 1
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            v = tf.Variable(3.0)
        with tf.Session(workers[0].target) as session:
            session.run(v.initializer)
            assert session.run(v * 2) == 6.0
    for server in workers + servers:
        server.stop()


def test_stubs_are_put_back():
    class Thing:
        size = 1

    with tf.test.StubOutForTesting() as stubs:
        stubs.Set(Thing, "size", 2)
        stubs.SmartSet(Thing, "size", 3)
        assert Thing.size == 3
    assert Thing.size == 1
    with pytest.raises(AttributeError):
        tf.test.StubOutForTesting().Set(Thing, "weight", 1)


def test_benchmark_reports(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_REPORT_FILE_PREFIX", str(tmp_path) + "/")

    class Bench(tf.test.Benchmark):
        def benchmarkAdd(self):
            with tf.Graph().as_default(), tf.Session() as session:
                self.run_op_benchmark(session, tf.constant(1) + 1, min_iters=3)

    tf.test.Benchmark.registered.remove(Bench)
    Bench().benchmarkAdd()
    assert '"name": "Bench.benchmarkAdd"' in capsys.readouterr().out
    assert '"iters": 3' in (tmp_path / "Bench.benchmarkAdd").read_text()


PROGRAM = """
import sparkflow as tf

class SquareTest(tf.test.TestCase):
    def testSquare(self):
        with self.test_session():
            self.assertAllEqual(tf.square([2, 3]).eval(), [4, {nine}])

if __name__ == "__main__":
    tf.test.main()
"""


@pytest.mark.parametrize(("nine", "code", "word"), [(9, 0, "OK"), (8, 1, "Arrays differ")])
def test_main_runs_the_tests_of_a_program(tmp_path, nine, code, word):
    path = tmp_path / "square_test.py"
    path.write_text(PROGRAM.format(nine=nine))
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=100)
    assert done.returncode == code
    assert word in done.stderr


def test_hardware():
    assert tf.test.is_gpu_available() == (tf.test.gpu_device_name() != "")
    assert tf.test.is_built_with_cuda()
