"""Functions of one node each: they add the right op with the right arguments."""

import math

import numpy as np
import pytest

import sparkflow as tf

X = np.array([[0.3, -0.6, 0.9], [0.2, 0.5, -0.1]])
Y = np.array([[1.5, 0.5, -2.0], [1.0, 4.0, 3.0]])
B = np.array([[True, False, True], [False, False, True]])

ONE = {
    "acos": np.arccos,
    "asin": np.arcsin,
    "atan": np.arctan,
    "abs": np.abs,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": np.vectorize(math.erf),
    "exp": np.exp,
    "expm1": np.expm1,
    "floor": np.floor,
    "is_finite": np.isfinite,
    "is_inf": np.isinf,
    "is_nan": np.isnan,
    "log1p": np.log1p,
    "negative": np.negative,
    "neg": np.negative,
    "reciprocal": np.reciprocal,
    "rint": np.rint,
    "round": np.rint,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
    "to_float": np.float32,
    "to_double": np.float64,
    "to_int32": np.int32,
    "to_int64": np.int64,
    "zeros_like": np.zeros_like,
    "ones_like": np.ones_like,
    "reduce_prod": np.prod,
}
TWO = {
    "add": np.add,
    "atan2": np.arctan2,
    "div": np.divide,
    "equal": np.equal,
    "floordiv": np.floor_divide,
    "floormod": np.mod,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mod": np.mod,
    "mul": np.multiply,
    "multiply": np.multiply,
    "not_equal": np.not_equal,
    "pow": lambda x, y: np.power(x, y),
    "squared_difference": lambda x, y: (x - y) ** 2,
    "sub": np.subtract,
    "subtract": np.subtract,
    "truediv": np.divide,
}
LOGICAL = {
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_argument(session, name):
    result = getattr(tf, name)(tf.constant(X), name="named")
    assert result.op.name == "named" or result is result.graph.get_tensor_by_name("Const:0")
    value = session.run(result)
    np.testing.assert_allclose(value, ONE[name](X), rtol=1e-6)
    assert result.shape == np.shape(value)


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_arguments_broadcast(session, name):
    function, x = getattr(tf, name), abs(X) if name == "pow" else X
    np.testing.assert_allclose(session.run(function(x, Y)), TWO[name](x, Y), rtol=1e-6)
    with_row = function(tf.constant(x), Y[:1], name="row")
    assert with_row.op.name == "row"
    np.testing.assert_allclose(session.run(with_row), TWO[name](x, Y[:1]), rtol=1e-6)


@pytest.mark.parametrize("name", LOGICAL)
def test_logic(session, name):
    swapped = B[:, ::-1]
    value = session.run(getattr(tf, name)(B, swapped))
    np.testing.assert_array_equal(value, LOGICAL[name](B, swapped))


def test_operators_on_booleans(session):
    b, c = tf.constant(B), tf.constant(B[:, ::-1].copy())
    results = session.run([b & c, b | c, b ^ c, ~b, True & b, False | b, True ^ b])
    x, y = B, B[:, ::-1]
    expected = [x & y, x | y, x ^ y, ~x, x, x, ~x]
    for result, each in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, each)


def test_operators_with_numbers_and_arrays_on_the_left(session):
    x = tf.constant(Y)
    results = session.run(
        [2.0 * x, 7.0 // x, 7.0 % x, 2.0**x, Y @ tf.transpose(x), Y - x, x <= 1.0]
    )
    expected = [2 * Y, 7 // Y, 7 % Y, 2**Y, Y @ Y.T, Y - Y, Y <= 1]
    for result, each in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, each, rtol=1e-6)


def test_reductions_of_booleans(session):
    b = tf.constant(B)
    results = session.run([tf.reduce_any(b, 1), tf.reduce_all(b, 0), tf.reduce_any(b)])
    np.testing.assert_array_equal(results[0], [True, True])
    np.testing.assert_array_equal(results[1], [False, False, True])
    assert results[2]


def test_choosing_with_broadcasting(session):
    value = session.run(tf.where_v2(B, X, 0.0))
    np.testing.assert_array_equal(value, np.where(B, X, 0))
    with pytest.raises(ValueError, match="both be non-None or both be None"):
        tf.where(B, X)


def test_arrays_change_shape(session):
    x = tf.constant(X)
    results = session.run(
        [
            tf.broadcast_to(x[:1], [4, 3]),
            tf.transpose(tf.constant([[1 + 2j]]), conjugate=True),
            tf.strided_slice(x, [0, 1], [2, 3]),
            tf.gather(x, [[0], [2]], axis=1),
            tf.concat(x, 0),
        ]
    )
    np.testing.assert_array_equal(results[0], np.broadcast_to(X[:1], (4, 3)))
    np.testing.assert_array_equal(results[1], [[1 - 2j]])
    np.testing.assert_array_equal(results[2], X[:, 1:])
    np.testing.assert_array_equal(results[3], X[:, [[0], [2]]])
    np.testing.assert_array_equal(results[4], X)


def test_what_arrays_refuse():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="Unknown padding mode: WRAP"):
            tf.pad(X, [[0, 0], [1, 1]], "wrap")
        with pytest.raises(ValueError, match="indexing must be"):
            tf.meshgrid([1], [2], indexing="yx")
        with pytest.raises(ValueError, match="mask cannot be scalar"):
            tf.boolean_mask(X, True)
        with pytest.raises(ValueError, match="at least one Tensor"):
            tf.add_n([])
        with pytest.raises(ValueError, match="Only one of transpose_a and adjoint_a"):
            tf.matmul(X, Y, transpose_a=True, adjoint_a=True)
        with pytest.raises(ValueError, match="Different number of contraction axes"):
            tf.tensordot(X, Y, [[0], [0, 1]])
        with pytest.raises(ValueError, match="'ord' must be"):
            tf.norm(X, ord=-1)
        with pytest.raises(ValueError, match="should be of length 1, 2 or 4"):
            tf.nn.max_pool(tf.zeros([1, 4, 4, 1]), [1, 2, 2], 1, "SAME")


def test_complex_numbers(session):
    product = tf.matmul([[1 + 1j]], [[1 + 1j]], adjoint_a=True)
    assert session.run(product).tolist() == [[2.0]]
    outer = tf.matmul([[1 + 1j]], [[1 + 1j]], adjoint_b=True)
    assert session.run(outer).tolist() == [[2.0]]


def test_scattering(session):
    w = tf.Variable([1.0, 2.0, 3.0])
    session.run(w.initializer)
    assert session.run(tf.scatter_update(w, [0], [8.0])).tolist() == [8.0, 2.0, 3.0]
    assert session.run(tf.scatter_mul(w, [1], [5.0])).tolist() == [8.0, 10.0, 3.0]
    assert session.run(tf.scatter_div(w, [0], [2.0])).tolist() == [4.0, 10.0, 3.0]
    rows = tf.IndexedSlices(tf.constant([1.0]), tf.constant([2]))
    assert session.run(w.scatter_add(rows)).tolist() == [4.0, 10.0, 4.0]
    assert session.run(w.scatter_update(rows)).tolist() == [4.0, 10.0, 1.0]


def test_random_rows_and_classes(session):
    shuffled = session.run(tf.random_shuffle(tf.range(50), seed=1))
    assert sorted(shuffled) == list(range(50))
    assert shuffled.tolist() != list(range(50))
    drawn = session.run(tf.multinomial([[0.0, 50.0], [50.0, 0.0]], 20, seed=1))
    np.testing.assert_array_equal(drawn, [[1] * 20, [0] * 20])
    numbers = session.run(tf.random_uniform([1000], 3, 7, tf.int32, seed=1))
    assert set(numbers) == {3, 4, 5, 6}
    with pytest.raises(ValueError, match="Must specify maxval"):
        tf.random_uniform([2], dtype=tf.int32)
    tf.set_random_seed(0)
    assert tf.random_uniform([2], seed=0).op.get_attr("seed2") == 2**31 - 1


def test_half_precision_is_computed_in_single(session):
    x = tf.constant([[1.0, 2.0, 4.0]], tf.float16)
    mean, variance = tf.nn.moments(x, [1])
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[2], logits=x)
    assert [t.dtype for t in (mean, variance, loss)] == [tf.float16] * 3
    values = session.run([mean, variance, loss])
    assert [float(v[0]) for v in values] == pytest.approx([7 / 3, 14 / 9, 0.1697], rel=1e-2)


def test_texts_are_joined_by_plus():
    with tf.Graph().as_default(), tf.Session() as session:
        texts = tf.constant(["a", "b"])
        assert session.run(texts + "c").tolist() == [b"ac", b"bc"]
        assert session.run("c" + texts).tolist() == [b"ca", b"cb"]


def test_results_of_several_tensors_have_names():
    with tf.Graph().as_default(), tf.Session() as session:
        pooled = tf.nn.max_pool_with_argmax([[[[1.0], [3.0]]]], [1, 1, 2, 1], [1, 1, 2, 1], "SAME")
        assert session.run(pooled).argmax.tolist() == [[[[1]]]]
        assert session.run(tf.quantize_v2([0.0, 2.0], 0.0, 2.0, tf.quint8)).output_max == 2.0


def test_lists_are_tables_of_several_parts():
    with tf.Graph().as_default(), tf.Session() as session:
        rows = tf.nn.embedding_lookup([[1.0, 2.0], [3.0, 4.0]], [1, 0, 2])
        assert session.run(rows).tolist() == [3.0, 1.0, 2.0]
