"""Datasets at run time: batching, order, caches, files, and every op."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import sparkflow as tf
from sparkflow.data import iterator, structure
from sparkflow.data.sources import dataset_of
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import (
    AlreadyExistsError,
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
)
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.data.dataset import DatasetOp
from sparkflow_runtime.resources.datasets import (
    dataset_cache,
    dataset_shuffle,
    dataset_sources,
    dataset_threads,
    dataset_transforms,
    file_datasets as dataset_files,
    function_datasets as dataset_functions,
)
from sparkflow_runtime.resources.datasets.dataset import INFINITE, UNKNOWN
from sparkflow_runtime.resources.datasets.dataset_iterator import DatasetIterator, IteratorHandles
from support.damage import damages
from support.datasets import add_one, elements, numbers, values
from support.step import FakeStep


def test_every_dataset_op_is_stateful_and_on_the_cpu():
    ops = [op for op in registry.all_ops() if isinstance(op, DatasetOp)]
    assert len(ops) > 40
    assert all(op.stateful and set(op.kernels) == {"CPU"} for op in ops)


def test_different_shapes_do_not_batch():
    source = dataset_sources.of_iterator(lambda: iter([(np.zeros(2),), (np.zeros(3),)]))
    with pytest.raises(
        InvalidArgumentError,
        match=r"Cannot batch tensors with different shapes in component 0. First element had shape "
        r"\[2\] and element 1 had shape \[3\].",
    ):
        elements(dataset_transforms.batched(source, 2, False))


def test_batches_of_rows_are_gathered_like_batches_of_elements():
    rows = np.arange(60, dtype=np.float32).reshape(20, 3)
    whole = dataset_sources.of_slices([rows, np.arange(20)])
    seeds = [dataset_shuffle.Seeds(1, 2, True) for _ in range(2)]
    by_rows = dataset_shuffle.shuffled(whole, 7, seeds[0])
    identity = dataset_functions.mapped(whole, lambda step, element: element)
    by_element = dataset_shuffle.shuffled(identity, 7, seeds[1])
    assert by_rows.iterate().columns is not None
    assert by_element.iterate().columns is None
    for change in (
        lambda d: d,
        lambda d: dataset_transforms.repeated(d, 2),
        lambda d: dataset_transforms.skipped(dataset_transforms.taken(d, 15), 3),
        lambda d: dataset_transforms.shard(d, 3, 1),
    ):
        one, other = (
            elements(dataset_transforms.batched(change(d), 6, False)) for d in (by_rows, by_element)
        )
        assert one == other


def test_seeds_give_tensorflows_order():
    order = dataset_shuffle.shuffled(numbers(10), 4, dataset_shuffle.Seeds(1, 6, True))
    assert values(order) == [1, 0, 5, 3, 6, 8, 7, 2, 9, 4]
    assert values(order) == [2, 0, 3, 4, 7, 6, 8, 9, 1, 5]
    fixed = dataset_shuffle.shuffled(numbers(10), 4, dataset_shuffle.Seeds(1, 6, False))
    assert values(fixed) == values(fixed)
    assert sorted(values(fixed)) == list(range(10))


def test_no_seed_gives_another_order_each_time():
    orders = {
        tuple(values(dataset_shuffle.shuffled(numbers(40), 40, dataset_shuffle.Seeds(0, 0, True))))
        for _ in range(3)
    }
    assert len(orders) == 3


def test_repeating_nothing_for_ever_ends():
    assert values(dataset_transforms.repeated(numbers(0), -1)) == []
    batches = dataset_transforms.batched(dataset_transforms.repeated(numbers(0), -1), 2, False)
    assert values(batches) == []


def test_lengths():
    ten = numbers(10)
    assert dataset_transforms.batched(ten, 3, True).length == 3
    assert dataset_transforms.batched(ten, 3, False).length == 4
    assert dataset_transforms.repeated(ten, -1).length == INFINITE
    assert dataset_functions.filtered(ten, add_one).length == UNKNOWN
    assert dataset_transforms.zipped([ten, dataset_transforms.repeated(ten, -1)]).length == 10


def test_the_element_after_one_that_failed_can_be_asked_for():
    def fail_at_two(step, element):
        if element[0] == 2:
            raise InvalidArgumentError(message="two")
        return element

    for dataset in (
        dataset_functions.mapped(numbers(4), fail_at_two),
        dataset_threads.mapped_in_parallel(numbers(4), fail_at_two, 2),
        dataset_threads.prefetched(dataset_functions.mapped(numbers(4), fail_at_two), 2),
    ):
        iterator, step, found = dataset.iterate(), FakeStep(), []
        for _ in range(4):
            try:
                found.append(int(iterator.next(step)[0]))
            except InvalidArgumentError as error:
                found.append(error.message)
        assert found == [0, 1, "two", 3]
        assert iterator.next(step) is None
        iterator.close()


def test_iterators_before_the_first_and_after_the_last_element():
    iterator = DatasetIterator("it")
    with pytest.raises(FailedPreconditionError, match="has not been initialized"):
        iterator.next_batch(FakeStep())
    iterator.initialize(numbers(1))
    iterator.next_batch(FakeStep())
    for _ in range(2):
        with pytest.raises(OutOfRangeError, match=r"^End of sequence$"):
            iterator.next_batch(FakeStep())


def test_handles_stand_for_iterators_as_long_as_they_live():
    handles, iterator = IteratorHandles(), DatasetIterator("it")
    text = handles.text(iterator)
    assert handles.text(iterator) == text
    assert handles.find(text) is iterator
    del iterator
    with pytest.raises(InvalidArgumentError, match="made by another task, or is gone"):
        handles.find(text)


def test_a_memory_cache_is_filled_by_a_whole_pass_only():
    calls = []

    def count(step, element):
        calls.append(int(element[0]))
        return element

    dataset = dataset_cache.cached_in_memory(dataset_functions.mapped(numbers(3), count))
    values(dataset, 2)
    assert values(dataset) == [0, 1, 2]
    assert calls == [0, 1, 0, 1, 2]
    assert values(dataset) == [0, 1, 2]
    assert len(calls) == 5


def test_a_file_cache_serves_other_datasets(tmp_path):
    prefix = str(tmp_path / "cache")
    texts = dataset_sources.of_slices([np.array([b"a", b"b"], object), np.ones((2, 3), np.float32)])
    assert elements(dataset_cache.cached_in_file(texts, prefix)) == elements(texts)
    nothing = dataset_sources.of_iterator(lambda: iter(()))
    assert elements(dataset_cache.cached_in_file(nothing, prefix)) == elements(texts)


def test_no_damage_of_a_cache_gives_other_elements(tmp_path):
    prefix = str(tmp_path / "cache")
    expected = elements(dataset_cache.cached_in_file(numbers(3), prefix))
    path = tmp_path / "cache.data-00000-of-00001"
    said = []
    for damaged in damages(path.read_bytes()):
        path.write_bytes(damaged)
        try:
            assert elements(dataset_cache.cached_in_file(numbers(0), prefix)) == expected
        except DataLossError as error:
            said.append(str(error))
    assert len(said) > 100
    assert all(str(path) in each for each in said)


def test_two_writers_of_one_cache(tmp_path):
    dataset = dataset_cache.cached_in_file(numbers(3), str(tmp_path / "cache"))
    first, second = dataset.iterate(), dataset.iterate()
    first.next(FakeStep())
    with pytest.raises(AlreadyExistsError, match="concurrent caching iterator"):
        second.next(FakeStep())
    second.close()
    first.close()
    assert list(tmp_path.iterdir()) == []


def test_lines_and_pieces(tmp_path):
    lines = tmp_path / "lines"
    lines.write_bytes(b"one\r\ntwo\n\nfour")
    names = [str(lines).encode()]
    assert values(dataset_files.of_lines(names, "")) == [b"one", b"two", b"", b"four"]
    pieces = tmp_path / "pieces"
    pieces.write_bytes(b"HaabbccF")
    assert values(dataset_files.of_pieces([str(pieces).encode()], 1, 2, 1, "")) == [
        b"aa",
        b"bb",
        b"cc",
    ]
    with pytest.raises(InvalidArgumentError, match="Excess bytes of 1 in the body of file"):
        values(dataset_files.of_pieces([str(pieces).encode()], 0, 2, 1, ""))
    with pytest.raises(DataLossError, match="shorter than its header"):
        values(dataset_files.of_pieces([str(pieces).encode()], 100, 2, 0, ""))
    with pytest.raises(NotFoundError, match="missing"):
        values(dataset_files.of_lines([str(tmp_path / "missing").encode()], ""))


TABLE = pa.table(
    {
        "x": pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32())),
        "n": pa.array([1, 2, 3]),
        "s": pa.array(["a", "b", "c"]),
    }
)
TYPES = [dtypes.float32, dtypes.int64, dtypes.string]
ROWS = [([1.0, 2.0], 1, b"a"), ([3.0, 4.0], 2, b"b"), ([5.0, 6.0], 3, b"c")]


def test_columns_of_parquet_and_arrow_files(tmp_path):
    parquet.write_table(TABLE, tmp_path / "t.parquet", row_group_size=2)
    with pa.ipc.new_file(str(tmp_path / "t.arrow"), TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=2)
    with pa.ipc.new_stream(str(tmp_path / "t.stream"), TABLE.schema) as writer:
        writer.write_table(TABLE)
    for make, name in (
        (dataset_files.of_parquet, "t.parquet"),
        (dataset_files.of_arrow, "t.arrow"),
        (dataset_files.of_arrow, "t.stream"),
    ):
        dataset = make([str(tmp_path / name).encode()] * 2, ["x", "n", "s"], TYPES)
        assert elements(dataset) == ROWS * 2
        (first, _) = elements(dataset_transforms.batched(dataset, 4, False))
        assert first[1] == [1, 2, 3, 1]
        with pytest.raises(NotFoundError, match=r"has no columns \['y'\]; it has x, n, s"):
            elements(make([str(tmp_path / name).encode()], ["y"], TYPES[:1]))


# Every op type once, by the nodes that the front end creates, or by hand if it creates others.
D = tf.data.Dataset
E = tf.data.experimental
LONG = {"output_types": [tf.int64], "output_shapes": [()]}
LONGS = {"output_types": [tf.int64], "output_shapes": [None]}


def node(op_type, *inputs, **attrs):
    """A dataset node of int64 numbers that the front end does not create."""
    converted = [
        [t._variant_tensor for t in each]
        if isinstance(each, list) and isinstance(each[0], D)
        else each
        if isinstance(each, list)
        else each._variant_tensor
        if isinstance(each, D)
        else tf.convert_to_tensor(each)
        for each in inputs
    ]
    op = tf.get_default_graph().add_node(op_type, converted, attrs)
    (shape,) = attrs["output_shapes"]
    return D(op.outputs[0], D.range(1)._structure.with_shape(shape))


def like(op_type, dataset, replaced=(), **attrs):
    """The node of a dataset with a different op type and different last inputs."""
    made = dataset._variant_tensor.op
    grouped = iterator._grouped(made, list(made.inputs))
    kept = {k: v for k, v in made._attrs.items() if k in ("f", "Targuments", *LONG)}
    inputs = [*grouped[: 2 + (2 if "Interleave" in op_type else 0)]]
    inputs += [tf.constant(each, dtype) for each, dtype in replaced]
    op = tf.get_default_graph().add_node(op_type, inputs, {**kept, **attrs})
    return D(op.outputs[0], dataset._structure)


def resource(op_type):
    return tf.get_default_graph().add_node(op_type).outputs[0]


def long(value):
    return tf.constant(value, tf.int64)


def cycle(x):
    return D.from_tensors(x).repeat(2)


IN_TURN = [0, 1, 0, 1, 2, 2]
OPS = [
    ("TensorDataset", lambda: D.from_tensors(long(3)), [3]),
    ("TensorSliceDataset", lambda: D.from_tensor_slices([3, 4]), [3, 4]),
    ("RangeDataset", lambda: D.range(2), [0, 1]),
    ("BatchDataset", lambda: node("BatchDataset", D.range(3), long(2), **LONGS), [[0, 1], [2]]),
    ("BatchDatasetV2", lambda: D.range(3).batch(2, True), [[0, 1]]),
    (
        "PaddedBatchDataset",
        lambda: node(
            "PaddedBatchDataset",
            D.range(3),
            long(2),
            [tf.zeros([0], tf.int64)],
            [long(0)],
            Toutput_types=[tf.int64],
            output_shapes=[None],
        ),
        [[0, 1], [2]],
    ),
    ("PaddedBatchDatasetV2", lambda: D.range(3).padded_batch(2, []), [[0, 1], [2]]),
    ("RepeatDataset", lambda: D.range(2).repeat(2), [0, 1, 0, 1]),
    ("TakeDataset", lambda: D.range(5).take(2), [0, 1]),
    ("SkipDataset", lambda: D.range(5).skip(3), [3, 4]),
    ("ShardDataset", lambda: D.range(5).shard(2, 1), [1, 3]),
    ("PrefetchDataset", lambda: D.range(2).prefetch(1), [0, 1]),
    ("ConcatenateDataset", lambda: D.range(2).concatenate(D.range(1)), [0, 1, 0]),
    ("ZipDataset", lambda: D.zip((D.range(2),)), [(0,), (1,)]),
    ("CacheDataset", lambda: D.range(2).cache(), [0, 1]),
    (
        "CacheDatasetV2",
        lambda: node("CacheDatasetV2", D.range(2), "", resource("DummyMemoryCache"), **LONG),
        [0, 1],
    ),
    ("ShuffleDataset", lambda: D.range(2).shuffle(1), [0, 1]),
    (
        "ShuffleDatasetV2",
        lambda: node(
            "ShuffleDatasetV2", D.range(2), long(1), resource("DummySeedGenerator"), **LONG
        ),
        [0, 1],
    ),
    (
        "ShuffleDatasetV3",
        lambda: node(
            "ShuffleDatasetV3",
            D.range(2),
            long(1),
            long(1),
            long(2),
            resource("DummySeedGenerator"),
            **LONG,
        ),
        [0, 1],
    ),
    (
        "ShuffleAndRepeatDataset",
        lambda: D.range(2).apply(E.shuffle_and_repeat(1, 2)),
        [0, 1, 0, 1],
    ),
    ("WindowDataset", lambda: D.range(2).window(2), None),
    ("UnbatchDataset", lambda: D.range(2).batch(2).unbatch(), [0, 1]),
    ("IgnoreErrorsDataset", lambda: D.range(2).apply(E.ignore_errors()), [0, 1]),
    (
        "DirectedInterleaveDataset",
        lambda: E.choose_from_datasets([D.range(2), D.range(5, 7)], D.range(2)),
        [0, 5],
    ),
    ("RandomDataset", lambda: E.RandomDataset(1), None),
    ("ModelDataset", lambda: node("ModelDataset", D.range(2), **LONG), [0, 1]),
    (
        "OptionsDataset",
        lambda: node("OptionsDataset", D.range(2), serialized_options="", **LONG),
        [0, 1],
    ),
    (
        "OptimizeDataset",
        lambda: node("OptimizeDataset", D.range(2), tf.constant([], tf.string), **LONG),
        [0, 1],
    ),
    ("MapDataset", lambda: D.range(2).map(lambda x: x + 1), [1, 2]),
    ("ParallelMapDataset", lambda: D.range(2).map(lambda x: x + 1, 2), [1, 2]),
    (
        "ParallelMapDatasetV2",
        lambda: like("ParallelMapDatasetV2", D.range(2).map(lambda x: x + 1), [(2, tf.int64)]),
        [1, 2],
    ),
    ("MapAndBatchDataset", lambda: D.range(2).apply(E.map_and_batch(lambda x: x, 2)), [[0, 1]]),
    ("FilterDataset", lambda: D.range(2).filter(lambda x: x > 0), [1]),
    ("TakeWhileDataset", lambda: D.range(2).apply(E.take_while(lambda x: x < 1)), [0]),
    ("FlatMapDataset", lambda: D.range(2).flat_map(cycle), [0, 0, 1, 1]),
    ("InterleaveDataset", lambda: D.range(3).interleave(cycle, 2), IN_TURN),
    (
        "ParallelInterleaveDataset",
        lambda: D.range(3).apply(E.parallel_interleave(cycle, 2)),
        IN_TURN,
    ),
    ("ParallelInterleaveDatasetV2", lambda: D.range(3).interleave(cycle, 2, 1, 2), IN_TURN),
    (
        "ParallelInterleaveDatasetV3",
        lambda: like(
            "ParallelInterleaveDatasetV3", D.range(3).interleave(cycle, 2), [(2, tf.int64)]
        ),
        IN_TURN,
    ),
    (
        "ParallelInterleaveDatasetV4",
        lambda: like(
            "ParallelInterleaveDatasetV4", D.range(3).interleave(cycle, 2), [(2, tf.int64)] * 3
        ),
        IN_TURN,
    ),
    (
        "ScanDataset",
        lambda: D.range(3).apply(E.scan(np.int64(0), lambda s, x: (s + x, s))),
        [0, 0, 1],
    ),
    (
        "GroupByWindowDataset",
        lambda: D.range(4).apply(E.group_by_window(lambda x: x % 2, lambda k, d: d, 2)),
        [0, 2, 1, 3],
    ),
    ("GeneratorDataset", lambda: D.from_generator(lambda: iter([3]), tf.int64, []), [3]),
]


@pytest.mark.parametrize(("op_type", "make", "expected"), OPS, ids=[row[0] for row in OPS])
def test_each_op(op_type, make, expected):
    with tf.Graph().as_default(), tf.Session() as session:
        dataset = make()
        assert dataset._variant_tensor.op.type == op_type
        if expected is None:
            return
        following = dataset.make_initializable_iterator()
        element = following.get_next()
        session.run(following.initializer)
        found = []
        while len(found) <= len(expected):
            try:
                value = session.run(element)
            except tf.errors.OutOfRangeError:
                break
            found.append(value if isinstance(value, tuple) else np.asarray(value).tolist())
        assert found == expected


def test_what_is_computed_of_whole_datasets():
    with tf.Graph().as_default(), tf.Session() as session:
        total = D.range(4).reduce(np.int64(1), lambda s, x: s + x)
        single = E.get_single_element(D.range(4).batch(4))
        count = E.cardinality(D.range(4))
        assert [t.op.type for t in (total, single, count)] == [
            "ReduceDataset",
            "DatasetToSingleElement",
            "DatasetCardinality",
        ]
        assert session.run([total, count]) == [7, 4]
        assert session.run(single).tolist() == [0, 1, 2, 3]


def test_sparse_batches():
    # DenseToSparseBatchDataset
    rows = dataset_sources.of_iterator(lambda: iter([(np.ones(2),), (np.ones(3),)]))
    ((places, values_found, shape),) = elements(dataset_transforms.sparse_batched(rows, 2, [-1]))
    assert places == [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]]
    assert values_found == [1.0] * 5
    assert shape == [2, 3]
    with pytest.raises(InvalidArgumentError, match="row_shape is 2 in dimension 0"):
        elements(dataset_transforms.sparse_batched(rows, 2, [2]))


def test_ops_of_files(tmp_path):
    (tmp_path / "lines").write_bytes(b"ab\ncd\n")
    path = str(tmp_path / "lines")
    parquet.write_table(TABLE, tmp_path / "t.parquet")
    with pa.ipc.new_file(str(tmp_path / "t.arrow"), TABLE.schema) as writer:
        writer.write_table(TABLE)
    with tf.Graph().as_default(), tf.Session() as session:
        text = D.from_tensors("x")._structure
        sizes = [long(each) for each in (0, 3, 0, 0)]
        op = tf.get_default_graph().add_node(
            "FixedLengthRecordDataset", [tf.constant(path), *sizes]
        )
        made = {
            "TextLineDataset": (tf.data.TextLineDataset(path), [b"ab", b"cd"]),
            "FixedLengthRecordDataset": (D(op.outputs[0], text), [b"ab\n", b"cd\n"]),
            "FixedLengthRecordDatasetV2": (
                tf.data.FixedLengthRecordDataset(path, 3),
                [b"ab\n", b"cd\n"],
            ),
        }
        write = E.TFRecordWriter(str(tmp_path / "r")).write(tf.data.TextLineDataset(path))
        assert write.type == "DatasetToTFRecord"
        session.run(write)
        made["TFRecordDataset"] = tf.data.TFRecordDataset(str(tmp_path / "r")), [b"ab", b"cd"]
        for op_type, (dataset, expected) in made.items():
            assert dataset._variant_tensor.op.type == op_type
            assert session.run(E.get_single_element(dataset.batch(5))).tolist() == expected
        for op_type, dataset in (
            ("SparkflowParquetDataset", D.from_parquet(str(tmp_path / "t.parquet"), ["n"])),
            ("SparkflowArrowDataset", D.from_arrow(str(tmp_path / "t.arrow"), ["n"])),
        ):
            assert dataset._variant_tensor.op.type == op_type
            found = session.run(E.get_single_element(dataset.batch(5)))
            assert found["n"].tolist() == [1, 2, 3]


def test_rows_that_nobody_hosts_are_told():
    """`SparkflowHostedDataset`; `test_hosted_datasets.py` tests hosted ones."""
    element = structure.Component(tf.float32, (2,))
    with tf.Graph().as_default(), tf.Session() as session:
        rows = dataset_of(
            "SparkflowHostedDataset", [], element, source="those", **structure.attrs(element)
        )
        batch = rows.make_one_shot_iterator().get_next()
        with pytest.raises(tf.errors.NotFoundError, match="hosts no rows of a DataFrame"):
            session.run(batch)


def test_csv_records_have_one_delimiter():
    made = registry.lookup("SparkflowCsvRecordDataset")
    with pytest.raises(InvalidArgumentError, match="only 1 char, got ';;'"):
        made.compute(np, np.array("a"), np.array(""), field_delim=";;", use_quote_delim=True)
