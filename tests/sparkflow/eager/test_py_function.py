import numpy as np
import pytest

import sparkflow as tf


def test_an_eager_function_runs_in_a_graph_with_its_gradient():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [3])
        n = tf.constant(2)

        def function(a, b, times):
            assert a.numpy().shape == (3,)
            return [a * b * tf.cast(times, tf.float32), tf.reduce_sum(a)]

        y, total = tf.py_function(function, [x, 2 * x, n], [tf.float32, tf.float32])
        slope = tf.gradients(y + total, x)[0]
        assert slope.shape.as_list() == [3]
        found = session.run([y, total, slope], {x: [1, 2, 3]})
    assert found[0].tolist() == [4, 16, 36]
    assert found[1] == 6
    np.testing.assert_allclose(found[2], 8 * np.array([1, 2, 3]) + 3)


def test_what_it_returns_must_fit():
    with tf.Graph().as_default(), tf.Session() as session:
        y = tf.py_function(lambda: (1.0, 2.0), [], tf.float32)
        with pytest.raises(tf.errors.InvalidArgumentError, match="returned 2 values"):
            session.run(y)
    with pytest.raises(TypeError, match="takes a function"):
        tf.py_function(3, [], tf.float32)


def test_functions_call_through():
    with tf.Graph().as_default(), tf.Session() as session:

        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def increment(x):
            """Adds one."""
            return x + 1

        assert increment.__doc__ == "Adds one."
        assert session.run(increment(tf.constant(2.0))) == 3.0
        assert increment.python_function is not increment


@pytest.mark.parametrize("build", [tf.py_func, tf.py_function])
def test_without_results_it_is_an_operation(build):
    seen = []
    with tf.Graph().as_default(), tf.Session() as session:
        told = build(lambda x: seen.append(int(x)), [3], [])
        assert isinstance(told, tf.Operation)
        with tf.control_dependencies([told]):
            assert session.run(tf.constant(4) + 0) == 4
    assert seen == [3]
