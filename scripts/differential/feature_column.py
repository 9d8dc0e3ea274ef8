"""Feature columns: what they make of features, names of variables, wrong arguments."""

PREAMBLE = """
import tempfile, os
F = tf.feature_column
path = os.path.join(tempfile.mkdtemp(), "words.txt")
with open(path, "w") as f:
    f.write("emerson\\nlake\\npalmer\\n")
n = F.numeric_column("n")
pair = F.numeric_column("pair", shape=(2,))
b = F.bucketized_column(n, [0.0, 1.0, 2.5])
b2 = F.bucketized_column(F.numeric_column("pair", shape=2), [0, 2])
i = F.categorical_column_with_identity("i", 4)
d = F.categorical_column_with_identity("i", 3, default_value=0)
h = F.categorical_column_with_hash_bucket("s", 7)
hi = F.categorical_column_with_hash_bucket("i", 5, tf.int64)
v = F.categorical_column_with_vocabulary_list("s", ["lake", "palmer", "x"])
vo = F.categorical_column_with_vocabulary_list("s", ["lake", "palmer"], num_oov_buckets=2)
vd = F.categorical_column_with_vocabulary_list("s", ("lake", "palmer"), default_value=1)
vi = F.categorical_column_with_vocabulary_list("i", [3, 1], dtype=tf.int32)
vf = F.categorical_column_with_vocabulary_file("s", path)
vf2 = F.categorical_column_with_vocabulary_file("s", path, 2, num_oov_buckets=1)
c = F.crossed_column(["s", "t"], 11)
cb = F.crossed_column([b, "s"], 13, hash_key=5)
cc = F.crossed_column([F.crossed_column(["s", "t"], 11), i], 17)
w = F.weighted_categorical_column(i, "w")
table = tf.constant(np.arange(12.0).reshape(4, 3) / 10, tf.float32)
def row(shape, dtype=None, partition_info=None):
    return tf.reshape(tf.cast(tf.range(int(np.prod(shape))), tf.float32), shape) / 10.0
def text(columns):
    return [repr(sorted((k, type(s).__name__, tuple(s)) for k, s in F.make_parse_example_spec(columns).items()))]
features = lambda: {
    "n": tf.constant([[-1.0], [0.5], [2.5], [3.0]]),
    "pair": tf.constant([[1.0, 2.0], [3.0, 4.0], [0.0, -1.0], [1.5, 2.0]]),
    "i": tf.SparseTensor([[0, 0], [0, 1], [1, 0], [3, 0]], tf.constant([0, 3, 1, 1], tf.int64), [4, 2]),
    "w": tf.SparseTensor([[0, 0], [0, 1], [1, 0], [3, 0]], [0.5, 2.0, 1.0, -1.0], [4, 2]),
    "s": tf.constant([["lake"], ["who"], [""], ["palmer"]]),
    "t": tf.constant([["a", "b"], ["c", ""], ["d", "d"], ["", ""]]),
}
def layer(columns, **other):
    return F.input_layer({**features(), **other}, columns)
def names():
    return [(v.name, v.shape.as_list(), sorted(k for k in tf.get_default_graph().get_all_collection_keys() if any(v is each for each in tf.get_collection(k)))) for v in tf.global_variables()]
def linear(columns, units=1, **kw):
    with tf.variable_scope("", initializer=None):
        out = F.linear_model(features(), columns, units, **kw)
    sets = [tf.assign(var, row(var.shape.as_list())) for var in tf.global_variables()]
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        before = session.run(out)
        session.run(sets)
        return [before, session.run(out), names()]
"""
WITH_RESPECT_TO = ()

_CATEGORICAL = [
    "i",
    "d",
    "h",
    "hi",
    "v",
    "vo",
    "vd",
    "vi",
    "vf",
    "vf2",
    "c",
    "cb",
    "cc",
    "w",
    "b",
    "b2",
]
_LINES = [f"layer([F.indicator_column({each})])" for each in _CATEGORICAL if each[0] != "b"]
_LINES += [
    f"layer([F.embedding_column({each}, 2, initializer=row)])"
    for each in _CATEGORICAL
    if each[0] != "b"
]
_LINES += [f"linear([{each}])" for each in [*_CATEGORICAL, "n", "pair"]]
_LINES += [f"[{each}.name, text([{each}])]" for each in [*_CATEGORICAL, "n", "pair"]]
_LINES += [
    "[F.indicator_column(h).name, F.embedding_column(h, 3).name, text([F.embedding_column(h, 3), n])]",
    "layer([n])",
    "layer(n)",
    "layer([pair, n])",
    "layer([b])",
    "layer([b2, b])",
    "layer([F.embedding_column(i, 2, 'sum', row)])",
    "layer([F.embedding_column(w, 2, combiner='sqrtn', initializer=row)])",
    "layer([F.embedding_column(i, 2, initializer=row, max_norm=0.3)])",
    "layer([F.embedding_column(b, 2, initializer=row)])",
    "layer([F.indicator_column(b)])",
    "layer([n, F.indicator_column(v), F.embedding_column(h, 2, initializer=row)])",
    "layer([F.numeric_column('n', normalizer_fn=lambda x: x * 2.0)])",
    "layer([F.numeric_column('n')], n=tf.constant([1.0, 2.0]))",
    "layer([F.numeric_column('n')], n=tf.constant([[1], [2]]))",
    "layer([F.numeric_column('n', (2, 1))], n=tf.constant([[[1], [2]]]))",
    "layer([F.numeric_column('n')], n=tf.constant(1.0))",
    "layer([F.numeric_column('n')], n=tf.SparseTensor([[0, 0]], [1.0], [1, 1]))",
    "layer([F.numeric_column('none')])",
    "layer([F.indicator_column(i)], i=tf.constant([[1, -1], [2, 2]]))",
    # Left out: an integer out of range with no default, which 1.15 refuses and 2.21 drops.
    "layer([F.indicator_column(d)], i=tf.constant([[5], [2], [0]]))",
    "layer([F.indicator_column(i)], i=tf.constant([['a']]))",
    "layer([F.indicator_column(h)], s=tf.constant([[1]]))",
    "layer([F.indicator_column(hi)], i=tf.constant([[1, 2], [3, -1]]))",
    "layer([i])",
    "layer([])",
    "layer({})",
    "layer([n, n])",
    "layer(['n'])",
    "layer([n, pair], pair=tf.constant([[1.0, 2.0]]))",
    "linear([])",
    "linear(['n'])",
    "linear([n, pair, i, b, c])",
    "linear([n, i], 3)",
    "linear([F.indicator_column(i), F.embedding_column(h, 2, initializer=row)])",
    "linear([i, w], sparse_combiner='mean')",
    "linear([n], trainable=False)",
    "linear([n], weight_collections=['mine'])",
    "F.numeric_column('n', shape=[1.0])",
    "F.numeric_column('n', shape=0)",
    "F.numeric_column('n', dtype=tf.string)",
    "F.numeric_column('n', shape=(2,), default_value=[1.0])",
    "F.numeric_column('n', default_value='a')",
    "F.numeric_column('n', dtype=tf.int32, default_value=1.5)",
    "F.numeric_column('n', normalizer_fn=3)",
    "text([F.numeric_column('n', shape=(2,), default_value=1.0)])",
    "text([F.numeric_column('n', shape=(2,), default_value=[1.0, 2.0])])",
    "F.bucketized_column(i, [1.0])",
    "F.bucketized_column(n, [])",
    "F.bucketized_column(n, [2.0, 1.0])",
    "F.bucketized_column(n, 1.0)",
    "F.bucketized_column(F.numeric_column('n', shape=(2, 2)), [1.0])",
    "F.categorical_column_with_identity('i', 0)",
    "F.categorical_column_with_identity('i', 2, 5)",
    "F.categorical_column_with_hash_bucket('s', 0)",
    "F.categorical_column_with_hash_bucket('s', None)",
    "F.categorical_column_with_hash_bucket('s', 3, tf.float32)",
    "F.categorical_column_with_vocabulary_list('s', [])",
    "F.categorical_column_with_vocabulary_list('s', ['a', 'a'])",
    "F.categorical_column_with_vocabulary_list('s', ['a'], num_oov_buckets=1, default_value=0)",
    "F.categorical_column_with_vocabulary_list('s', ['a'], num_oov_buckets=-1)",
    "F.categorical_column_with_vocabulary_list('s', ['a'], dtype=tf.int32)",
    "F.categorical_column_with_vocabulary_list('s', [1.5])",
    "F.categorical_column_with_vocabulary_file('s', '')",
    "F.categorical_column_with_vocabulary_file('s', '/none/none.txt')",
    "F.categorical_column_with_vocabulary_file('s', path, 0)",
    "F.categorical_column_with_vocabulary_file('s', path, 2, 1, 1)",
    "F.categorical_column_with_vocabulary_file('s', path).vocabulary_size",
    "F.crossed_column(['a'], 3)",
    "F.crossed_column(['a', 'b'], 0)",
    "F.crossed_column(['a', h], 3)",
    "F.crossed_column(['a', n], 3)",
    "F.crossed_column(['a', 3], 3)",
    "layer([F.indicator_column(F.crossed_column([w, 's'], 3))])",
    "F.embedding_column(i, 0)",
    "F.embedding_column(i, None)",
    "F.embedding_column(i, 2, initializer=3)",
    "F.embedding_column(i, 2, ckpt_to_load_from='x')",
    "F.weighted_categorical_column(i, 'w', tf.string)",
    "layer([F.indicator_column(F.weighted_categorical_column(i, 'w', tf.int32))])",
    "F.make_parse_example_spec(['a'])",
    "F.make_parse_example_spec([F.numeric_column('a'), F.categorical_column_with_identity('a', 2)])",
    "[each.name for each in F.shared_embedding_columns([i, F.categorical_column_with_identity('j', 4)], 2)]",
    "F.shared_embedding_columns([i, d], 2)",
    "F.shared_embedding_columns([i, h], 2)",
    "F.sequence_numeric_column('x', shape=[3]).name",
    "F.sequence_categorical_column_with_identity('x', 3).num_buckets",
    "layer([F.indicator_column(F.sequence_categorical_column_with_identity('i', 4))])",
    "layer([F.embedding_column(F.sequence_categorical_column_with_identity('i', 4), 2)])",
    "tf.sparse.cross([features()['t'], features()['s']])",
    "tf.sparse.cross_hashed([features()['t'], features()['i']], 1000)",
    "tf.sparse.cross_hashed([features()['t'], features()['s']], hash_key=3)",
]
_LINES += [
    """---
out = layer([F.embedding_column(i, 2), F.embedding_column(h, 3), F.indicator_column(v), n])
names()""",
    """---
shared = F.shared_embedding_columns([i, F.categorical_column_with_identity('j', 4)], 2, initializer=row)
out = layer(shared, j=tf.constant([[1], [2], [3], [0]]))
[out, names()]""",
    """---
to_vars, outputs = {}, {}
e = F.embedding_column(i, 2)
F.input_layer(features(), [e, n], ['mine'], False, to_vars, outputs)
[[v.name for v in to_vars[e]], to_vars[n], outputs[n], sorted(k.name for k in outputs), names()]""",
    """---
to_vars = {}
F.linear_model(features(), [i, n], cols_to_vars=to_vars)
[[v.name for v in to_vars[each]] for each in (i, n, "bias")]""",
    """---
layer([F.embedding_column(i, 2)])
layer([F.embedding_column(i, 2)])
names()""",
    """---
with tf.variable_scope("outer", partitioner=tf.fixed_size_partitioner(2)):
    out = layer([F.embedding_column(i, 2, initializer=tf.ones_initializer())])
[out, [v.name for v in tf.global_variables()]]""",
]
EXPRESSIONS = "\n".join(_LINES)
