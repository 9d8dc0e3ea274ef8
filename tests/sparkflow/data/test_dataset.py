"""`tf.data.Dataset` in graphs: step loops, iterators, state, errors."""

import threading

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.testing.local_cluster import LocalCluster

Dataset = tf.data.Dataset


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def run_all(session, fetches):
    found = []
    while True:
        try:
            found.append(session.run(fetches))
        except tf.errors.OutOfRangeError:
            return found


def values(dataset):
    following = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        return run_all(session, following)


def test_a_step_loop_over_feeds():
    fed = tf.placeholder(tf.float32, [None, 2])
    iterator = Dataset.from_tensor_slices(fed).repeat(2).batch(3).make_initializable_iterator()
    total = tf.reduce_sum(iterator.get_next(), 0)
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="has not been initialized"):
            session.run(total)
        for scale in (1, 10):
            session.run(iterator.initializer, {fed: scale * np.ones((2, 2))})
            found = run_all(session, total)
            np.testing.assert_array_equal(found, [[3 * scale] * 2, [scale] * 2])


def test_training_reads_variables_anew_in_each_call():
    weight = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    iterator = Dataset.range(3).map(lambda x: tf.cast(x, tf.float32) + weight)
    iterator = iterator.make_initializable_iterator()
    following = iterator.get_next()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(iterator.initializer)
        assert session.run(following) == 0
        session.run(weight.assign(10.0))
        assert session.run(following) == 11


def test_tables_are_looked_up_in_functions():
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a", "b"], np.array([1, 2])), -1
    )
    iterator = Dataset.from_tensor_slices(["b", "c"]).map(table.lookup)
    iterator = iterator.make_initializable_iterator()
    following = iterator.get_next()
    with tf.Session() as session:
        session.run([tf.tables_initializer()])
        session.run(iterator.initializer)
        assert run_all(session, following) == [2, -1]


def test_a_reinitializable_iterator_switches_datasets():
    iterator = tf.data.Iterator.from_structure(tf.int64, [])
    train, test = Dataset.range(3), Dataset.range(10, 12)
    starts = iterator.make_initializer(train), iterator.make_initializer(test)
    following = iterator.get_next()
    with tf.Session() as session:
        session.run(starts[0])
        assert session.run(following) == 0
        session.run(starts[1])
        assert run_all(session, following) == [10, 11]
        session.run(starts[0])
        assert run_all(session, following) == [0, 1, 2]


def test_a_feedable_iterator_goes_on_where_it_was():
    handle = tf.placeholder(tf.string, [])
    train = Dataset.range(5).make_one_shot_iterator()
    test = Dataset.range(10, 12).make_initializable_iterator()
    both = tf.data.Iterator.from_string_handle(handle, train.output_types, train.output_shapes)
    following = both.get_next()
    with tf.Session() as session:
        handles = session.run([train.string_handle(), test.string_handle()])
        assert session.run(following, {handle: handles[0]}) == 0
        session.run(test.initializer)
        assert session.run(following, {handle: handles[1]}) == 10
        assert session.run(following, {handle: handles[0]}) == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match="Could not find an iterator"):
            session.run(following, {handle: b"other"})


def test_sessions_have_iterators_of_their_own():
    following = Dataset.range(3).make_one_shot_iterator().get_next()
    with tf.Session() as one, tf.Session() as other:
        assert one.run(following) == 0
        assert one.run(following) == 1
        assert other.run(following) == 0


def test_shuffling_differs_per_epoch_and_not_per_session():
    tf.set_random_seed(3)
    dataset = Dataset.range(20).shuffle(20, seed=4)
    following = dataset.repeat(2).batch(20).make_one_shot_iterator().get_next()
    with tf.Session() as one, tf.Session() as other:
        first, second = run_all(one, following)
        assert first.tolist() != second.tolist()
        assert sorted(first) == sorted(second) == list(range(20))
        np.testing.assert_array_equal(run_all(other, following), [first, second])


def test_closing_a_session_ends_threads():
    dataset = Dataset.range(5).repeat().map(lambda x: x + 1, num_parallel_calls=2).prefetch(2)
    following = dataset.make_one_shot_iterator().get_next()
    before = threading.active_count()
    with tf.Session() as session:
        session.run(following)
        assert threading.active_count() > before
    names = [t.name for t in threading.enumerate() if t.name.startswith("sparkflow-p")]
    assert names == []


def test_a_generator_is_closed_when_its_iterator_is():
    closed = []

    def generate():
        try:
            yield from range(100)
        finally:
            closed.append(True)

    dataset = Dataset.from_generator(generate, tf.int64, []).take(3)
    assert values(dataset) == [0, 1, 2]
    assert closed == [True]


@pytest.mark.parametrize(
    ("yielded", "text"),
    [
        ([(1, 2)], "did not match the expected structure|could not be converted|of shape"),
        (["text"], "could not be converted to the expected type"),
        ([[1, 2]], r"of shape \(2,\) where an element of shape \(\) was expected"),
    ],
)
def test_generators_that_yield_something_else(yielded, text):
    dataset = Dataset.from_generator(lambda: iter(yielded), tf.int64, [])
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        values(dataset)


@pytest.mark.parametrize("yielded", [None, float("nan"), 3, np.array(3)])
def test_generators_of_texts_yield_texts_only(yielded):
    dataset = Dataset.from_generator(lambda: iter([yielded]), tf.string, [])
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected type was string"):
        values(dataset)


def test_rows_of_a_table_have_the_dtypes_of_its_columns():
    pandas = pytest.importorskip("pandas")
    kinds = [np.float64, np.int64, np.int8, np.bool_, np.float16]
    table = pandas.DataFrame({str(index): np.ones(2, kind) for index, kind in enumerate(kinds)})
    found = tf.data.get_output_types(Dataset.from_tensor_slices(dict(table)))
    assert [each.as_numpy_dtype for each in found.values()] == kinds


def test_random_numbers_in_functions_differ_per_element():
    found = values(Dataset.range(5).map(lambda _: tf.random_uniform([], seed=1)))
    assert len(set(found)) == 5


def test_files(tmp_path):
    with tf.python_io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for text in (b"1", b"2"):
            writer.write(text)
    with tf.python_io.TFRecordWriter(
        str(tmp_path / "b.gz"),
        tf.python_io.TFRecordOptions(tf.python_io.TFRecordCompressionType.GZIP),
    ) as writer:
        writer.write(b"3")
    a, b = str(tmp_path / "a.tfrecord"), str(tmp_path / "b.gz")
    assert values(tf.data.TFRecordDataset(a)) == [b"1", b"2"]
    assert values(tf.data.TFRecordDataset(b, "GZIP")) == [b"3"]
    assert values(tf.data.TFRecordDataset([a, a], num_parallel_reads=2)) == [b"1", b"1", b"2", b"2"]
    files = Dataset.list_files(str(tmp_path / "*.tfrecord"))
    assert values(files.flat_map(tf.data.TFRecordDataset)) == [b"1", b"2"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="No files matched pattern"):
        values(Dataset.list_files(str(tmp_path / "*.none")))


def test_a_writer_writes_a_dataset(tmp_path):
    path = str(tmp_path / "out")
    write = tf.data.experimental.TFRecordWriter(path).write(Dataset.range(3).map(tf.as_string))
    with tf.Session() as session:
        session.run(write)
    assert values(tf.data.TFRecordDataset(path)) == [b"0", b"1", b"2"]


def test_csv_files(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,c\n1,2.5,x\n3,4.5,y\n")
    batches = tf.data.experimental.make_csv_dataset(
        str(tmp_path / "t.csv"), 2, label_name="c", num_epochs=1, shuffle=False
    )
    assert batches.output_types == ({"a": tf.int32, "b": tf.float32}, tf.string)
    ((features, label),) = values(batches)
    assert features["a"].tolist() == [1, 3]
    assert features["b"].tolist() == [2.5, 4.5]
    assert label.tolist() == [b"x", b"y"]
    rows = tf.data.experimental.CsvDataset(
        str(tmp_path / "t.csv"), [tf.float32, ""], header=True, select_cols=[1, 2]
    )
    assert values(rows) == [(2.5, b"x"), (4.5, b"y")]


def test_columns_of_tables(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"x": [[1.0, 2.0], [3.0, 4.0]], "n": [1, 2]})
    parquet.write_table(table, tmp_path / "t.parquet")
    for dataset in (
        Dataset.from_arrow(table),
        Dataset.from_parquet(str(tmp_path / "t.parquet")),
    ):
        assert dataset.output_types == {"x": tf.float64, "n": tf.int64}
        (batch,) = values(dataset.batch(2))
        assert batch["x"].tolist() == [[1.0, 2.0], [3.0, 4.0]]
        assert batch["n"].tolist() == [1, 2]
    with pytest.raises(tf.errors.NotFoundError, match=r"There are no columns \['y'\]; there are x"):
        Dataset.from_arrow(table, ["y"])
    with pytest.raises(TypeError, match="Column 't' is timestamp"):
        Dataset.from_arrow(pa.table({"t": pa.array([0], pa.timestamp("s"))}))


def test_files_of_tables_with_a_log_are_refused(tmp_path):
    """By the function, and by the op if the paths are known only at run time."""
    import pyarrow as pa
    from pyarrow import parquet

    (tmp_path / "day=1").mkdir()
    path = str(tmp_path / "day=1" / "part-0.parquet")
    parquet.write_table(pa.table({"n": [1, 2]}), path)
    early = Dataset.from_parquet(path)
    assert [each["n"] for each in values(early)] == [1, 2]
    (tmp_path / "_delta_log").mkdir()
    for paths in (path, [path], str(tmp_path)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="of a table of Delta Lake"):
            Dataset.from_parquet(paths)
    with pytest.raises(tf.errors.InvalidArgumentError, match="of a table of Delta Lake"):
        values(early)


def test_weights_of_samples():
    tf.set_random_seed(1)
    mixed = tf.data.experimental.sample_from_datasets(
        [Dataset.from_tensors(0).repeat(), Dataset.from_tensors(1).repeat()], [0.2, 0.8], seed=5
    )
    (drawn,) = values(mixed.take(2000).batch(2000))
    assert 0.77 < drawn.mean() < 0.83


def test_errors_name_the_line_and_leave_the_iterator_usable():
    dataset = Dataset.from_tensor_slices([1.0, 0.0, 2.0])
    dataset = dataset.map(lambda x: tf.check_numerics(1 / x, "not finite"))
    following = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert session.run(following) == 1.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="not finite") as caught:
            session.run(following)
        assert "test_dataset.py" in str(caught.value)
        assert session.run(following) == 0.5


def test_what_is_no_dataset_of_this_graph():
    dataset = Dataset.range(3)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="same graph"):
        dataset.make_one_shot_iterator()
    with pytest.raises(RuntimeError, match="only supported when eager"):
        iter(dataset)


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: Dataset.range(3).map(3), TypeError, "must be callable, got 3"),
        (lambda: Dataset.range(3).map(lambda x: None), TypeError, "Unsupported return value"),
        (lambda: Dataset.range(3).flat_map(lambda x: x), TypeError, "must return a `Dataset`"),
        (lambda: Dataset.range(3).filter(lambda x: x), ValueError, "scalar boolean"),
        (lambda: Dataset.from_tensor_slices(([1], [1, 2])), ValueError, "1 and 2 are not compat"),
        (lambda: Dataset.zip([Dataset.range(2)]), TypeError, "do not support Python lists"),
        (lambda: Dataset.range(2).apply(lambda d: 1), TypeError, "must return a Dataset"),
    ],
)
def test_wrong_arguments(make, kind, text):
    with pytest.raises(kind, match=text):
        make()


def test_a_dataset_runs_on_another_task():
    offset = tf.placeholder(tf.int64, [])
    with LocalCluster(1, 1) as cluster:
        with tf.device("/job:worker/task:0"):
            iterator = Dataset.range(6).map(lambda x: x * 2 + offset).batch(4).prefetch(1)
            iterator = iterator.make_initializable_iterator()
            following = iterator.get_next()
        target = f"grpc://{cluster.address('worker', 0)}"
        with tf.Session(target) as session:
            session.run(iterator.initializer, {offset: 1})
            assert [each.tolist() for each in run_all(session, following)] == [
                [1, 3, 5, 7],
                [9, 11],
            ]


def generated(value, dtype):
    return values(Dataset.from_generator(lambda: iter([value]), dtype))[0]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        *((1.7, tf.int32), ([1, 2.5], tf.int32), (2**40, tf.int32), (300, tf.uint8)),
        *((1, tf.string), (None, tf.string), (["a", 1], tf.string), (b"1.5", tf.float32)),
        *((1, tf.bool), ("a", tf.bool)),
    ],
    ids=str,
)
def test_generated_values_of_another_type_are_refused(value, dtype):
    with pytest.raises(tf.errors.InvalidArgumentError, match="could not be converted to the exp"):
        generated(value, dtype)


def test_generated_values_that_fit():
    assert generated(np.float64(1.5), tf.int32) == 1  # numpy's values are cast
    assert generated([True, False], tf.bool).tolist() == [True, False]
    assert generated([], tf.int32).shape == (0,)
    assert generated(1, tf.float32) == 1.0
    assert generated(["a", b"b"], tf.string).tolist() == [b"a", b"b"]


def test_out_of_range_in_a_generator_is_not_its_end():
    def generate():
        yield 1
        raise tf.errors.OutOfRangeError(None, None, "inner")

    following = Dataset.from_generator(generate, tf.int32).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert session.run(following) == 1
        with pytest.raises(tf.errors.UnknownError, match="inner"):
            session.run(following)
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(following)


def test_lines_without_fields():
    with tf.Session() as session:
        for lines, defaults in (([""], [[5]]), (["1", ""], [["x"]])):
            with pytest.raises(tf.errors.InvalidArgumentError, match="Expect 1 fields but have 0"):
                session.run(tf.decode_csv(lines, defaults))


def test_column_names_must_be_complete(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b,c\n1,2,3\n")

    def made(**options):
        return tf.data.experimental.make_csv_dataset(
            str(path), 1, shuffle=False, num_epochs=1, **options
        )

    with pytest.raises(ValueError, match="has 3 columns, and there are 2 column names"):
        made(column_names=["a", "b"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expect 2 fields but have 3"):
        values(made(column_names=["a", "b"], column_defaults=[0, 0]))
    (row,) = values(made(select_columns=["c", "a"]))
    assert {name: each.tolist() for name, each in row.items()} == {"a": [1], "c": [3]}


def test_line_ends_in_quotes_belong_to_the_field(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'"x\ny",z\n1,"a\nb"\r\n3,4\n')
    rows = tf.data.experimental.CsvDataset(str(path), [[1], ["9"]], header=True)
    assert values(rows) == [(1, b"a\nb"), (3, b"4")]


def test_unbatching_sparse_tensors():
    sparse = tf.SparseTensor([[0, 0], [1, 2]], [1, 2], [2, 3])
    rows = values(Dataset.from_tensors(sparse).unbatch())
    assert [each.values.tolist() for each in rows] == [[1], [2]]
    assert [each.indices.tolist() for each in rows] == [[[0]], [[2]]]
    assert [each.dense_shape.tolist() for each in rows] == [[3], [3]]
    again = values(Dataset.from_tensors(({"s": sparse}, [5, 6])).unbatch().batch(2).unbatch())
    assert [(each["s"].values.tolist(), number) for each, number in again] == [([1], 5), ([2], 6)]
