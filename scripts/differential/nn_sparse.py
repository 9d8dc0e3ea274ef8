"""Connectionist temporal classification and embeddings of sparse ids."""



PREAMBLE = """
r = np.random.RandomState(0)
x = tf.constant(r.randn(6, 3, 5), tf.float32)
n = tf.constant([6, 4, 5])
l = tf.SparseTensor(tf.constant([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1], [2, 2]], tf.int64), tf.constant([1, 2, 0, 0, 3, 1, 3]), tf.constant([3, 3], tf.int64))
t = tf.constant(r.randn(8, 4), tf.float32)
t1 = tf.constant(r.randn(4, 4), tf.float32)
t2 = tf.constant(r.randn(4, 4), tf.float32)
i = tf.SparseTensor(tf.constant([[0, 0], [0, 1], [2, 0], [3, 1]], tf.int64), tf.constant([1, 3, 0, 7], tf.int64), tf.constant([4, 4], tf.int64))
j = tf.SparseTensor(tf.constant([[0, 0], [0, 1], [2, 0], [3, 1]], tf.int64), tf.constant([1, -1, -3, 7], tf.int64), tf.constant([5, 4], tf.int64))
w = tf.SparseTensor(i.indices, tf.constant([1.0, 2.0, 0.5, 3.0]), i.dense_shape)
z = tf.SparseTensor(i.indices, tf.constant([1.0, 2.0, 0.0, -3.0]), tf.constant([5, 4], tf.int64))
"""
WITH_RESPECT_TO = ("x", "t", "t1", "t2")
EXPRESSIONS = """
tf.nn.ctc_loss(l, x, n)
tf.nn.ctc_loss(labels=l, inputs=x, sequence_length=n, ctc_merge_repeated=False)
tf.nn.ctc_loss(l, x, n, preprocess_collapse_repeated=True)
tf.nn.ctc_loss(l, tf.transpose(x, [1, 0, 2]), n, time_major=False)
tf.nn.ctc_loss(l, x, tf.constant([6, 4, 2]))
tf.nn.ctc_loss(l, x, tf.constant([6, 4, 2]), ignore_longer_outputs_than_inputs=True)
tf.nn.ctc_loss(l, x, tf.constant([6, 4, 9]))
tf.nn.ctc_loss(l, x, tf.constant([6, 4]))
tf.nn.ctc_loss(tf.constant([[1]]), x, n)
tf.nn.ctc_loss_v2(tf.constant([[1, 2, 0], [3, 3, 0], [4, 1, 4]]), x, tf.constant([2, 2, 3]), n)
tf.nn.ctc_greedy_decoder(x, n)
tf.nn.ctc_greedy_decoder(x, n, merge_repeated=False)
tf.nn.ctc_beam_search_decoder(x, n)
tf.nn.ctc_beam_search_decoder(x, n, beam_width=20, top_paths=2, merge_repeated=False)
tf.nn.ctc_beam_search_decoder_v2(x, n, beam_width=50, top_paths=3)
tf.nn.collapse_repeated(tf.constant([[1, 1, 2, 2, 3], [4, 4, 4, 1, 1]]), tf.constant([5, 3]))
tf.nn.ctc_unique_labels(tf.constant([[3, 4, 4, 3], [1, 2, 1, 3]]))
tf.nn.embedding_lookup_sparse(t, i, None, combiner="mean")
tf.nn.embedding_lookup_sparse(t, i, None, combiner="sum")
tf.nn.embedding_lookup_sparse(t, i, None, combiner="sqrtn")
tf.nn.embedding_lookup_sparse(t, i, w, combiner="mean")[:1]
tf.nn.embedding_lookup_sparse(t, i, w, combiner="sum")
tf.nn.embedding_lookup_sparse(t, i, w, combiner="sqrtn")[:1]
tf.nn.embedding_lookup_sparse([t1, t2], i, w, combiner="sum")
tf.nn.embedding_lookup_sparse([t1, t2], i, None, "div", combiner="sum")
tf.nn.embedding_lookup_sparse(t, i, None, combiner="sum", max_norm=0.5) * t[:4]
tf.nn.embedding_lookup_sparse(t, i, None, combiner="max")
tf.nn.embedding_lookup_sparse(t, [1, 2], None)
tf.nn.safe_embedding_lookup_sparse(t, j)
tf.nn.safe_embedding_lookup_sparse(t, j, default_id=3)
tf.nn.safe_embedding_lookup_sparse(t, j, z)
tf.nn.safe_embedding_lookup_sparse(t, j, z, combiner="sum")
tf.nn.safe_embedding_lookup_sparse([t1, t2], j, None, "sqrtn")
tf.nn.safe_embedding_lookup_sparse(None, j)
"""
