"""HashTableV2, MutableHashTableV2, MutableHashTableOfTensorsV2, MutableDenseHashTableV2 and what is
done with them: LookupTableFindV2, LookupTableInsertV2, LookupTableImportV2, LookupTableRemoveV2,
LookupTableSizeV2, LookupTableExportV2, InitializeTableV2, InitializeTableFromTextFileV2. Through
the front end; TensorFlow's results are in the differential family `lookup`.
"""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime import dtypes, errors
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.state.lookup_contents import LookupTable


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_static_table(session):
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), default_value=-1
    )
    found = table.lookup(tf.constant([["b"], ["z"]]))
    with pytest.raises(tf.errors.FailedPreconditionError, match="Table not initialized"):
        session.run(found)
    session.run(tf.tables_initializer())
    session.run(tf.tables_initializer())  # once more
    assert session.run(found).tolist() == [[2], [-1]]
    assert session.run(table.size()) == 2
    assert [v.tolist() for v in session.run(table.export())] == [[b"a", b"b"], [1, 2]]


def test_mutable_table(session):
    table = tf.lookup.MutableHashTable(tf.string, tf.int64, -1)
    session.run(table.insert(["a", "b"], [1, 2]))
    session.run(table.insert(["b"], [3]))
    assert session.run(table.lookup(["a", "b", "c"])).tolist() == [1, 3, -1]
    session.run(table.remove(["a", "none"]))
    assert session.run(table.size()) == 1
    session.run(table.import_(["x"], [9]))
    assert [v.tolist() for v in session.run(table.export())] == [[b"x"], [9]]


def test_tables_of_vectors(session):
    table = tf.lookup.MutableHashTable(tf.int64, tf.float32, [0.0, 0.0])
    session.run(table.insert([5], [[1.5, 2.5]]))
    found = session.run(table.lookup([5, 6]))
    np.testing.assert_array_equal(found, [[1.5, 2.5], [0, 0]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expected shape"):
        session.run(table.insert([5], [[1.5]]))


def test_dense_table_is_one_that_changes():
    op = registry.lookup("MutableDenseHashTableV2")
    assert op.attrs["initial_num_buckets"].default == 131072


def test_words_and_numbers_of_a_file(session, tmp_path):
    path = tmp_path / "words"
    path.write_text("emerson\nlake\npalmer\n")
    numbers = tf.lookup.index_table_from_file(str(path), num_oov_buckets=2)
    words = tf.lookup.index_to_string_table_from_file(str(path))
    session.run(tf.tables_initializer())
    assert session.run(numbers.lookup(tf.constant(["lake", "palmer"]))).tolist() == [1, 2]
    assert session.run(numbers.lookup(tf.constant("who"))) in (3, 4)
    assert session.run(numbers.size()) == 5
    assert session.run(words.lookup(tf.constant([2, 9], tf.int64))).tolist() == [b"palmer", b"UNK"]


@pytest.mark.parametrize("text", [b"a\r\nb\r\n", b"a\nb\r", b"a\r\nb"])
def test_line_ends_of_windows_are_no_part_of_words(session, tmp_path, text):
    path = tmp_path / "words"
    path.write_bytes(text)
    numbers = tf.lookup.index_table_from_file(str(path), num_oov_buckets=1)
    session.run(tf.tables_initializer())
    assert session.run(numbers.lookup(tf.constant(["a", "b", "b\r"]))).tolist() == [0, 1, 2]


def test_line_ends_of_windows_are_no_part_of_columns(session, tmp_path):
    path = tmp_path / "words"
    path.write_bytes(b"1\ta\r\n2\tb\r\n")
    initializer = tf.lookup.TextFileInitializer(str(path), tf.string, 1, tf.int64, 0)
    numbers = tf.lookup.StaticHashTable(initializer, -1)
    session.run(tf.tables_initializer())
    assert session.run(numbers.lookup(tf.constant(["a", "b"]))).tolist() == [1, 2]


def test_empty_lines_are_no_words(session, tmp_path):
    path = tmp_path / "words"
    path.write_bytes(b"a\r\n\r\nb\n")
    tf.lookup.index_table_from_file(str(path))
    with pytest.raises(tf.errors.InvalidArgumentError, match="empty line found at position 5"):
        session.run(tf.tables_initializer())
    first = tf.lookup.index_table_from_file(str(path), vocab_size=1)
    session.run(first.initializer)


def test_words_and_numbers_of_a_list(session):
    numbers = tf.lookup.index_table_from_tensor(["a", "b"], default_value=-7)
    strong = tf.lookup.index_table_from_tensor(
        [10, 20], 3, dtype=tf.int64, hasher_spec=tf.lookup.StrongHashSpec([1, 2])
    )
    words = tf.lookup.index_to_string_table_from_tensor(["a", "b"], "none")
    session.run(tf.tables_initializer())
    assert session.run(numbers.lookup(tf.constant(["b", "q"]))).tolist() == [1, -7]
    assert session.run(strong.lookup(tf.constant([20, 99], tf.int64)))[0] == 1
    assert session.run(words.lookup(tf.constant([0, 5], tf.int64))).tolist() == [b"a", b"none"]


def test_wrong_arguments(session):
    with pytest.raises(ValueError, match="vocabulary_list must be specified"):
        tf.lookup.index_table_from_tensor(None)
    with pytest.raises(ValueError, match="vocabulary_file must be specified"):
        tf.lookup.index_table_from_file("")
    with pytest.raises(ValueError, match="key must have size 2"):
        tf.lookup.StrongHashSpec([1])
    with pytest.raises(TypeError, match="integer and string keys"):
        tf.lookup.index_table_from_tensor(["a"], dtype=tf.float32)
    with pytest.raises(TypeError, match="Expected integer"):
        tf.lookup.index_table_from_tensor(["a"], dtype=tf.int64)


def test_fixed_tables_do_not_change():
    table = LookupTable("t", dtypes.string, dtypes.int64)
    table.fill([b"a"], [1])
    with pytest.raises(errors.FailedPreconditionError, match="already initialized"):
        table.fill([b"b"], [1])
    with pytest.raises(errors.FailedPreconditionError, match="filled once"):
        table.insert([b"b"], [1])
