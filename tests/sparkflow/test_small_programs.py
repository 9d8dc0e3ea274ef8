"""Small programs with the answers and errors of TensorFlow 2.21's version 1 interface.

Each row is an expression over the tensors of `names`; expected values come from TensorFlow.
"""

# ruff: noqa: S307, E501  (the expressions are the rows below, one per line)

import numpy as np
import pytest

import sparkflow as tf


def names():
    """Returns tensors whose sizes are partly known, and their feeds."""
    made = {
        "x": tf.placeholder(tf.float32, [None, 3], "x"),
        "y": tf.placeholder(tf.float32, [None, None, 4], "y"),
        "im": tf.placeholder(tf.float32, [None, None, None, 3], "im"),
        "n": tf.placeholder(tf.int32, [], "n"),
        "t": tf.placeholder(tf.bool, [], "t"),
    }
    fed = {
        "x": np.arange(6.0).reshape(2, 3),
        "y": np.arange(24.0).reshape(2, 3, 4),
        "im": np.arange(96.0).reshape(2, 4, 4, 3),
        "n": 3,
        "t": True,
    }
    feeds = {made[name]: value for name, value in fed.items()}
    return {"tf": tf, "np": np, **made}, feeds


SHAPES = [
    ("tf.image.resize_image_with_crop_or_pad(im, n, 5)", "(?, ?, 5, 3)", (2, 3, 5, 3)),
    ("tf.image.resize_image_with_crop_or_pad(im, 5, n - 1)", "(?, 5, ?, 3)", (2, 5, 2, 3)),
    ("tf.image.resize_image_with_crop_or_pad(im[0], n, n)", "(?, ?, 3)", (3, 3, 3)),
    ("tf.image.extract_glimpse(im, [2, 2], tf.zeros([2, 2]))", "(2, 2, 2, 3)", (2, 2, 2, 3)),
    ("tf.sparse.reshape(tf.SparseTensor([[1, 0]], [1], [2, 2]), [4, n - 2])", "(4, 1)", (4, 1)),
    ("tf.sparse.reshape(tf.SparseTensor([[1, 0]], [1], [2, 2]), [-1])", "(4,)", (4,)),
    (
        "tf.sparse.reshape(tf.SparseTensor([[1, 0]], [1], tf.shape(x, out_type=tf.int64)), [-1])",
        "(?,)",
        (6,),
    ),
    (
        "tf.sparse.concat(1, [tf.SparseTensor([[1, 0]], [1], tf.shape(x, out_type=tf.int64))] * 2)",
        "(?, 6)",
        (2, 6),
    ),
    (
        "tf.sparse.concat(-1, [tf.SparseTensor([[1, 0]], [1], [2, 3]), tf.SparseTensor([[0, 0]], [1], [2, 1])])",
        "(2, 4)",
        (2, 4),
    ),
    (
        "tf.sparse.add(tf.SparseTensor([[0, 0]], [1.], [2, 3]), tf.SparseTensor([[0, 1]], [1.], [2, 3]))",
        "(2, 3)",
        (2, 3),
    ),
    (
        "tf.cond(t, lambda: tf.SparseTensor([[0, 0]], [1], [2, 2]), lambda: tf.SparseTensor([[0, 1]], [2], [2, 2]))",
        "(2, 2)",
        (2, 2),
    ),
    # TensorFlow uses the shape of the first branch for both, which is wrong here.
    (
        "tf.cond(t, lambda: tf.SparseTensor([[0, 0]], [1], [2, 2]), lambda: tf.SparseTensor([[0, 1]], [2], [2, 5]))",
        "(2, ?)",
        (2, 2),
    ),
]


@pytest.mark.parametrize(("source", "static", "dynamic"), SHAPES)
def test_static_shapes(source, static, dynamic):
    with tf.Graph().as_default():
        given, feeds = names()
        made = eval(source, given)
        assert str(made.get_shape()) == static
        with tf.Session() as session:
            value = session.run(made, feeds)
        shape = value.dense_shape if isinstance(value, tf.SparseTensorValue) else value.shape
        assert tuple(shape) == dynamic


@pytest.mark.parametrize("turns", range(-3, 6))
@pytest.mark.parametrize("image", ["im", "im[0]"])
def test_images_turn_as_often_as_a_tensor_says(turns, image):
    with tf.Graph().as_default(), tf.Session() as session:
        given, feeds = names()
        rotated = [tf.image.rot90(eval(image, given), k) for k in (turns, tf.constant(turns))]
        expected, found = session.run(rotated, feeds)
    np.testing.assert_array_equal(found, expected)


LOOPS = [
    ("tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a), [0, x])", tuple),
    ("tf.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, a], (0, x))", list),
    ("tf.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, a], [0, x])", list),
    (
        "tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a), [0, x], maximum_iterations=2)",
        tuple,
    ),
    ("tf.while_loop(lambda i: i < 3, lambda i: (i + 1,), [0], return_same_structure=True)", tuple),
    ("tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0], return_same_structure=True)", list),
    (
        "tf.while_loop(lambda i, d: i < 3, lambda i, d: (i + 1, {'a': d['a'] + 1.}), [0, {'a': x}])",
        tuple,
    ),
]


@pytest.mark.parametrize(("source", "kind"), LOOPS)
def test_loops_nest_their_results_as_the_body_does(source, kind):
    with tf.Graph().as_default(), tf.Session() as session:
        given, feeds = names()
        made = eval(source, given)
        assert type(made) is kind
        assert type(session.run(made, feeds)) is kind


NAMES = [
    ("tf.map_fn(lambda v: v * 2., x)", "map/TensorArrayStack/TensorArrayGatherV3:0"),
    ("tf.scan(lambda a, v: a + v, x)", "scan/TensorArrayStack/TensorArrayGatherV3:0"),
    ("tf.TensorArray(tf.float32, 2).unstack(x).stack(name='q')", "q/q:0"),
    (
        "tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(2), y, dtype=tf.float32, time_major=True)[0]",
        "rnn/TensorArrayStack/TensorArrayGatherV3:0",
    ),
    ("tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(2), y, dtype=tf.float32)[0]", "rnn/transpose_1:0"),
    (
        "tf.map_fn(lambda v: (v, v * 2.), x, (tf.float32, tf.float32))[1]",
        "map/TensorArrayStack_1/TensorArrayGatherV3:0",
    ),
    (
        "tf.nn.static_bidirectional_rnn(*[tf.nn.rnn_cell.GRUCell(2)] * 2, tf.unstack(y[:, :2], 2, 1), dtype=tf.float32)[0][1]",
        "concat_1:0",
    ),
    ("tf.train.exponential_decay(1., n, 2, .5)", "ExponentialDecay:0"),
    ("tf.train.natural_exp_decay(1., n, 2, .5)", "ExponentialDecay:0"),
    ("tf.train.inverse_time_decay(1., n, 2, .5)", "InverseTimeDecay:0"),
    ("tf.train.polynomial_decay(1., n, 2)", "PolynomialDecay:0"),
    ("tf.train.cosine_decay_restarts(1., n, 2)", "SGDRDecay:0"),
    ("tf.train.linear_cosine_decay(1., n, 2)", "LinearCosineDecay:0"),
    ("tf.train.noisy_linear_cosine_decay(1., n, 2, name='q')", "q:0"),
    ("tf.image.rgb_to_grayscale(im, name='q')", "q:0"),
    ("tf.image.rgb_to_grayscale(tf.cast(im, tf.uint8))", "rgb_to_grayscale:0"),
    ("tf.image.grayscale_to_rgb(im[..., :1], name='q')", "q:0"),
    ("tf.image.per_image_standardization(im)", "per_image_standardization:0"),
    ("tf.image.convert_image_dtype(tf.cast(im, tf.uint8), tf.int16)", "convert_image:0"),
    ("tf.image.total_variation(im)", "total_variation/add:0"),
    ("tf.signal.rfft(x)", "rfft:0"),
    ("tf.signal.irfft(tf.cast(x, tf.complex64), name='q')", "q:0"),
    ("tf.multinomial(x, 1)", "multinomial/Multinomial:0"),
    ("tf.random.categorical(x, 1)", "categorical/Multinomial:0"),
    ("tf.nn.zero_fraction(x)", "zero_fraction/fraction:0"),
    ("tf.clip_by_global_norm([x], 1., name='q')[1]", "q/global_norm:0"),
    ("tf.assert_type(x, tf.float32)", "assert_type/statically_determined_correct_type"),
    (
        "tf.sparse_tensor_dense_matmul(tf.SparseTensor([[0, 0]], [1.], [1, 2]), tf.zeros([2, 3]))",
        "SparseTensorDenseMatMul/SparseTensorDenseMatMul:0",
    ),
    (
        "tf.sparse.softmax(tf.SparseTensor([[0, 0]], [1.], [1, 2])).values",
        "SparseSoftmax/SparseSoftmax:0",
    ),
    (
        "tf.data.Iterator.from_structure(tf.int64, []).make_initializer(tf.data.Dataset.range(3))",
        "make_initializer",
    ),
    ("TABLE.table_ref", "s/hash_table:0"),
    ("TABLE.initializer", "s/key_value_init/InitializeTableV2"),
    ("TABLE.lookup(tf.constant(['a']))", "hash_table_Lookup/LookupTableFindV2:0"),
    ("TABLE.lookup(tf.constant(['a']), name='q')", "q/LookupTableFindV2:0"),
    ("TABLE.size()", "hash_table_Size/LookupTableSizeV2:0"),
    ("WORDS.lookup(tf.constant(['a']))", "hash_table_Lookup/Select:0"),
    ("WORDS.size()", "hash_table_Size/add:0"),
    (
        "MUTABLE.insert('a', tf.constant(1, tf.int64))",
        "MutableHashTable_lookup_table_insert/LookupTableInsertV2",
    ),
    ("MUTABLE.lookup(tf.constant('a'))", "MutableHashTable_lookup_table_find/LookupTableFindV2:0"),
    ("MUTABLE.remove('a')", "MutableHashTable_lookup_table_remove/LookupTableRemoveV2"),
    ("MUTABLE.export()[0]", "MutableHashTable_lookup_table_export_values/LookupTableExportV2:0"),
    ("tf.print(x)", "PrintV2"),
    ("tf.print(x, name='said')", "said"),
]


@pytest.mark.parametrize(("source", "name"), NAMES)
def test_names(source, name):
    made = {"TABLE": table, "WORDS": lambda: table(1), "MUTABLE": mutable_table}
    with tf.Graph().as_default():
        tables = {word: make() for word, make in made.items() if word in source}
        assert eval(source, {**names()[0], **tables}).name == name


def table(buckets=0):
    with tf.name_scope("s"):
        pairs = tf.lookup.KeyValueTensorInitializer(["a"], tf.constant([0], tf.int64))
        if buckets:
            return tf.lookup.StaticVocabularyTable(pairs, buckets)
        made = tf.lookup.StaticHashTable(pairs, -1)
    assert made.name == "hash_table"
    return made


def mutable_table():
    return tf.lookup.MutableHashTable(tf.string, tf.int64, -1)


CELLS = ["BasicRNNCell", "GRUCell", "BasicLSTMCell", "LSTMCell"]


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("options", [{}, {"name": "me"}])
def test_cells_of_one_name_are_counted(kind, options):
    with tf.Graph().as_default():
        found = []
        for _ in range(2):
            cell = getattr(tf.nn.rnn_cell, kind)(3, **options)
            cell(tf.ones([2, 2]), cell.zero_state(2, tf.float32))
            found.append({each.name.split("/")[0] for each in cell.variables})
        first, second = found
    (name,) = first
    assert second == {f"{name}_1"}


def test_a_cell_keeps_its_variables_in_another_scope():
    with tf.Graph().as_default():
        cell = tf.nn.rnn_cell.GRUCell(3)
        for scope in ("a", "b"):
            with tf.variable_scope(scope):
                cell(tf.ones([2, 2]), cell.zero_state(2, tf.float32))
        assert {each.name.split("/")[0] for each in tf.global_variables()} == {"a"}


def test_sparse_gradients_are_taken_by_name():
    with tf.Graph().as_default(), tf.Session() as session:
        accumulator = tf.SparseConditionalAccumulator(tf.float32, shape=())
        taken = accumulator.take_grad(1)
        session.run(accumulator.apply_grad([0, 2], [1.0, 3.0]))
        value = session.run(taken)
    assert value.indices.tolist() == [0, 2]
    assert value.values.tolist() == [1.0, 3.0]
    assert type(value) is type(taken)


REFUSALS = [
    (
        "tf.image.non_max_suppression(tf.zeros([5, 4]), tf.zeros([3]), 2)",
        ValueError,
        "Dimensions must be equal, but are 5 and 3",
    ),
    (
        "tf.cond(n, lambda: x, lambda: x)",
        TypeError,
        "Input 'pred' of 'Switch' Op has type int32 that does not match expected type of bool.",
    ),
    ("tf.cond(t, lambda: None, lambda: x)", ValueError, "'true_fn' must have a return value."),
    (
        "tf.while_loop(lambda i: i, lambda i: i, [0])",
        TypeError,
        "Input 'input' of 'LoopCond' Op has type int32 that does not match expected type of bool",
    ),
    ("tf.matmul(x, tf.ones([1]))", ValueError, "Shape must be rank 2 but is rank 1"),
    ("tf.fill(n, 1.)", ValueError, "Shape must be rank 1 but is rank 0"),
    (
        "tf.nn.conv2d(im[0], tf.ones([3, 3, 3, 1]), 1, 'SAME')",
        ValueError,
        "Shape must be rank 4 but is rank 3",
    ),
    ("tf.concat([x, tf.ones([2])], 0)", ValueError, "Shape must be rank 2 but is rank 1"),
    (
        "tf.concat([x, tf.ones([2, 4])], 0)",
        ValueError,
        "Dimension 1 in both shapes must be equal, but are 3 and 4.",
    ),
    ("tf.concat([x, x], 5)", ValueError, "Shape must be at least rank 6 but is rank 2"),
    (
        "tf.concat([tf.constant(1), tf.constant(2)], 0)",
        ValueError,
        "Can't concatenate scalars (use tf.stack instead)",
    ),
    (
        "tf.concat([], 0)",
        ValueError,
        "List argument 'values' to 'ConcatV2' Op with length 0 shorter than minimum length 2.",
    ),
    (
        "tf.stack([tf.constant(1), tf.constant([1])])",
        ValueError,
        "Shapes must be equal rank, but are 0 and 1\n\tFrom merging shape 0 with other shapes.",
    ),
    (
        "tf.stack([x, tf.ones([2, 4])])",
        ValueError,
        "Dimension 1 in both shapes must be equal, but are 3 and 4.",
    ),
    ("tf.transpose(x, [0])", ValueError, "Dimension must be 2 but is 1"),
    ("tf.unstack(x, num=5, axis=1)", ValueError, "Dimension must be 5 but is 3"),
    (
        "tf.split(x, 4, 3)",
        ValueError,
        "Dimension size, given by scalar input 3 must be in range [-2, 2)",
    ),
    ("tf.split(x, [1, 1], 1)", ValueError, "can't split axis of size 3 into pieces of size [1,1]"),
    ("tf.gather(tf.constant(1), 0)", ValueError, "Shape must be at least rank 1 but is rank 0"),
    ("tf.gather(x, 0, axis=3)", ValueError, "Shape must be at least rank 4 but is rank 2"),
    ("tf.constant(1)[0]", ValueError, "Attempting to slice scalar input."),
    ("tf.nn.bias_add(im, tf.ones([4]))", ValueError, "Dimensions must be equal, but are 3 and 4"),
    (
        "tf.nn.conv2d(im, tf.ones([1, 1, 3, 1]), 1, 'FOO')",
        ValueError,
        "Attr 'padding' of 'Conv2D' Op passed string 'FOO' not in: ",
    ),
    (
        "x.set_shape([3, 4])",
        ValueError,
        "Dimension 1 in both shapes must be equal, but are 3 and 4. Shapes are [?,3] and [3,4].",
    ),
    ("x.set_shape([3])", ValueError, "Shapes must be equal rank, but are 2 and 1"),
    (
        "tf.train.GradientDescentOptimizer(.1).apply_gradients([(tf.ones([1]), tf.Variable([1., 2.]))])",
        ValueError,
        "Dimension 0 in both shapes must be equal, but are 2 and 1. Shapes are [2] and [1].",
    ),
    (
        "tf.get_variable('d', [2], synchronization='x')",
        ValueError,
        "Invalid variable synchronization mode: x for variable: d",
    ),
    (
        "tf.get_variable('e', [2], aggregation='x')",
        ValueError,
        "Invalid variable aggregation mode: x for variable: e",
    ),
    (
        "tf.Variable(1., aggregation='x')",
        ValueError,
        "Invalid variable aggregation mode: x for variable: None",
    ),
    (
        "tf.print(x, output_stream='foo')",
        ValueError,
        "Unsupported output stream, logging level, or file",
    ),
    ("tf.name_scope('a b').__enter__()", ValueError, "'a b' is not a valid root scope name."),
]


@pytest.mark.parametrize(("source", "kind", "words"), REFUSALS)
def test_refusals_have_tensorflows_words(source, kind, words):
    with tf.Graph().as_default(), pytest.raises(kind) as caught:
        eval(source, names()[0])
    assert words in str(caught.value)


def change(**values):
    def apply(node):
        for name, value in values.items():
            setattr(node, name, value)

    return apply


def take(*inputs):
    def apply(node):
        del node.input[:]
        node.input.extend(inputs)

    return apply


def of_type(number):
    def apply(node):
        node.attr["T"].type = number

    return apply


DAMAGE = [
    (take("zz"), "Node 'k': Unknown input node 'zz'"),
    (take(), "NodeDef expected inputs 'int32' do not match 0 inputs specified"),
    (take("b", "b"), "NodeDef expected inputs 'int32' do not match 2 inputs specified"),
    (
        of_type(1),
        "Input 0 of node import/k was passed int32 from import/b:0 incompatible with expected float.",
    ),
    (change(name="b"), "Node 'b' is not unique"),
    (change(name="a b"), "Node 'a b': Node name contains invalid characters"),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGE)
def test_damaged_graphs_are_refused_in_tensorflows_words(damage, words):
    with tf.Graph().as_default() as graph:
        tf.identity(tf.constant(1, name="b"), name="k")
    message = graph.as_graph_def()
    damage(message.node[1])
    with tf.Graph().as_default(), pytest.raises(ValueError) as caught:  # noqa: PT011
        tf.import_graph_def(message)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("zz", "Requested return node 'zz' not found in graph def"),
        ("zz:0", "Requested return tensor 'zz:0' not found in graph def"),
        ("b:5", "Invalid return output 5 of node 'b', which has 1 output(s)"),
    ],
)
def test_what_is_not_in_a_graph_is_said_in_tensorflows_words(asked, words):
    with tf.Graph().as_default() as graph:
        tf.constant(1, name="b")
    with tf.Graph().as_default(), pytest.raises(ValueError) as caught:  # noqa: PT011
        tf.import_graph_def(graph.as_graph_def(), return_elements=[asked])
    assert words in str(caught.value)


def test_rows_without_ids_are_zero_with_weights_too():
    ids = tf.SparseTensor([[0, 0], [2, 0]], tf.constant([1, 0], tf.int64), [3, 1])
    weights = tf.SparseTensor(ids.indices, [2.0, 4.0], ids.dense_shape)
    table = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.Session() as session:
        for combiner, first in (("mean", [3, 4]), ("sqrtn", [3, 4]), ("sum", [6, 8])):
            rows = tf.nn.embedding_lookup_sparse(table, ids, weights, combiner=combiner)
            found, slope = session.run([rows, tf.gradients(rows, table)[0]])
            assert found[:2].tolist() == [first, [0, 0]]
            assert np.isfinite(slope.values).all()


def test_coloured_pngs_become_gray_as_libpng_makes_them():
    colours = np.array([[[0, 1, 2], [15, 16, 0], [9, 10, 11], [7, 7, 7], [255, 0, 254]]], np.uint8)
    with tf.Session() as session:
        gray = session.run(tf.image.decode_png(tf.image.encode_png(colours), channels=1))
    assert gray.ravel().tolist() == [0, 13, 9, 7, 105]


def test_datasets_and_pairs_are_written_as_tensorflow_does():
    data = tf.data.Dataset.from_tensors({"a": (1, [2.0])})
    assert repr(data) == "<Dataset shapes: {a: ((), (1,))}, types: {a: (tf.int32, tf.float32)}>"
    hits = tf.nn.compute_accidental_hits(
        tf.constant([[1]], tf.int64), tf.constant([1], tf.int64), 1
    )
    assert hits._fields == ("indices", "ids", "weights")
