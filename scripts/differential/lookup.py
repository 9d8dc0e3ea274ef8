"""Lookup tables. TF 2.21 has only part of tf.contrib.lookup; the rest is tested on our side."""

PREAMBLE = """
import tempfile, os
folder = tempfile.mkdtemp()
vocabulary = os.path.join(folder, "words.txt")
with open(vocabulary, "w") as f:
    f.write("emerson\\nlake\\npalmer\\n")
columns = os.path.join(folder, "columns.txt")
with open(columns, "w") as f:
    f.write("a\\t1\\nb\\t2\\n")
words = tf.constant([["lake", "palmer"], ["who", "emerson"]])
KV, TI, HT = tf.lookup.KeyValueTensorInitializer, tf.lookup.TextFileInitializer, tf.lookup.StaticHashTable
W, N = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
"""
WITH_RESPECT_TO = ()
EXPRESSIONS = r"""
HT(KV(["emerson", "lake", "palmer"], tf.constant([0, 1, 2], tf.int64)), -1).lookup(words)
HT(KV(["emerson", "lake", "palmer"], [0, 1, 2]), -1).lookup(words)
HT(KV(["a", "b"], [1.5, 2.5]), 0.0).lookup(tf.constant("b"))
HT(KV(tf.constant([1, 2], tf.int64), ["x", "y"]), "none").lookup(tf.constant([2, 3], tf.int64))
HT(KV([1, 2], [3, 4]), 0).lookup(tf.constant([2, 9]))
HT(KV(["a", "b"], [1, 2], tf.string, tf.int64), -1).size()
HT(KV(["a", "a"], [1, 1]), -1).size()
HT(KV(["a", "a"], [1, 2]), -1).size()
HT(KV(["a", "b"], [1]), -1).size()
HT(KV(["a", "b"], [1, 2]), -1).lookup(tf.constant([1, 2]))
HT(KV(["a"], [1]), -1).lookup(tf.constant([], tf.string))
HT(KV(["a"], [1]), "x").size()
HT(TI(vocabulary, tf.string, W, tf.int64, N), -1).lookup(words)
HT(TI(vocabulary, tf.int64, N, tf.string, W), "UNK").lookup(tf.constant([2, 0, 7], tf.int64))
HT(TI(vocabulary, tf.string, W, tf.int64, N, vocab_size=2), -1).lookup(words)
HT(TI(vocabulary, tf.string, W, tf.int64, N, vocab_size=9), -1).lookup(words)
HT(TI(columns, tf.string, 0, tf.int64, 1), -1).lookup(tf.constant(["a", "b", "c"]))
HT(TI(columns, tf.string, 0, tf.int64, 3), -1).lookup(tf.constant(["a", "b", "c"]))
HT(TI(columns, tf.int64, 0, tf.int64, 1), -1).size()
HT(TI(folder + "/none", tf.string, W, tf.int64, N), -1).size()
TI(vocabulary, tf.string, W, tf.int32, N)
TI(vocabulary, tf.string, W, tf.int64, N, vocab_size=0)
tf.lookup.StaticVocabularyTable(KV(["a", "b"], tf.constant([0, 1], tf.int64)), 3).lookup(tf.constant(["a", "zzz", "b", "yy", "q"]))
tf.lookup.StaticVocabularyTable(KV(["a", "b"], tf.constant([0, 1], tf.int64)), 3).size()
tf.lookup.StaticVocabularyTable(TI(vocabulary, tf.string, W, tf.int64, N), 2).lookup(words)
tf.lookup.StaticVocabularyTable(None, 5).lookup(words)
tf.lookup.StaticVocabularyTable(KV(["a"], tf.constant([0], tf.int64)), 0)
tf.lookup.StaticVocabularyTable(KV([4, 5], [0, 1], tf.int64, tf.int64), 3).lookup(tf.constant([4, 7, 9, 5], tf.int64))
HT(KV(["a", "b"], [1, 2]), -1).lookup(tf.SparseTensor([[0, 1], [2, 0]], ["b", "z"], [3, 2]))
tf.tables_initializer()
---
a = HT(KV(["a"], [1]), -1)
b = HT(KV(["a"], [2]), -1)
[a.lookup(tf.constant(["a"])), b.lookup(tf.constant(["a"])), tf.tables_initializer()]
---
t = HT(KV(["a"], [1]), -1)
tf.get_default_graph().clear_collection(tf.GraphKeys.TABLE_INITIALIZERS)
t.lookup(tf.constant(["a"]))
"""
