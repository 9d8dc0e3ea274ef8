"""Pipelines from producers to batches, run by their threads."""

import itertools

import numpy as np
import pytest

import sparkflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        tf.set_random_seed(1)
        yield made


def run_all(fetches):
    """Returns the fetched values until the data end."""
    found = []
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coord)
        with pytest.raises(tf.errors.OutOfRangeError, match="is closed and has insufficient"):
            found.extend(session.run(fetches) for _ in itertools.count())
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=60)
    return found


def numbers(count, epochs=1):
    return tf.train.range_input_producer(count, epochs, shuffle=False).dequeue()


def test_strings_come_in_order_epoch_after_epoch():
    names = tf.train.string_input_producer(["a", "b"], num_epochs=2, shuffle=False).dequeue()
    assert run_all(names) == [b"a", b"b", b"a", b"b"]


def test_shuffled_epochs_hold_everything_once():
    names = tf.train.string_input_producer([str(n) for n in range(9)], num_epochs=2, seed=3)
    found = run_all(names.dequeue())
    first, second = found[:9], found[9:]
    assert sorted(first) == sorted(second) == sorted(str(n).encode() for n in range(9))
    assert first != second


def test_no_string_is_refused():
    with pytest.raises(ValueError, match="requires a non-null input tensor"):
        tf.train.string_input_producer([])


def test_slices_of_several_tensors_belong_together():
    rows = tf.train.slice_input_producer([tf.range(5), tf.range(5) * 10], num_epochs=1)
    found = run_all(rows)
    assert sorted(a for a, _ in found) == list(range(5))
    assert all(b == 10 * a for a, b in found)


def test_epochs_are_counted_by_a_local_variable():
    tf.train.limit_epochs(tf.constant(1), 2)
    assert [v.op.name for v in tf.local_variables()] == ["limit_epochs/epochs"]
    with pytest.raises(ValueError, match="num_epochs must be > 0 not 0"):
        tf.train.limit_epochs(tf.constant(1), 0)


def test_batches_keep_their_order_and_form():
    x = numbers(5)
    out = tf.train.batch({"x": x, "y": tf.stack([x, x])}, 2, allow_smaller_final_batch=True)
    assert (str(out["x"].shape), str(out["y"].shape)) == ("(?,)", "(?, 2)")
    found = run_all(out)
    assert [each["x"].tolist() for each in found] == [[0, 1], [2, 3], [4]]
    assert found[2]["y"].tolist() == [[4, 4]]


def test_what_does_not_fill_a_batch_is_dropped():
    out = tf.train.batch([numbers(5)], 2)
    assert str(out.shape) == "(2,)"
    assert [each.tolist() for each in run_all(out)] == [[0, 1], [2, 3]]


def test_rows_of_one_input_are_examples():
    x = numbers(2)
    out = tf.train.batch([tf.stack([x, x + 10, x + 20])], 3, enqueue_many=True)
    assert [each.tolist() for each in run_all(out)] == [[0, 10, 20], [1, 11, 21]]


def test_varying_sizes_are_padded():
    out = tf.train.batch([tf.range(numbers(4))], 2, dynamic_pad=True)
    assert str(out.shape) == "(2, ?)"
    found = run_all(out)
    assert found[0].tolist() == [[0], [0]]
    assert found[1].tolist() == [[0, 1, 0], [0, 1, 2]]


def test_sparse_tensors_travel():
    x = numbers(4)
    sparse = tf.SparseTensor(
        tf.expand_dims(tf.expand_dims(tf.cast(x, tf.int64), 0), 0), tf.expand_dims(x, 0), [4]
    )
    dense, kept = tf.train.batch([x, sparse], 2)
    found = run_all([dense, kept.indices, kept.values, kept.dense_shape])
    assert found[1][0].tolist() == [2, 3]
    assert found[1][1].tolist() == [[0, 2], [1, 3]]
    assert found[1][2].tolist() == [2, 3]
    assert found[1][3].tolist() == [2, 4]


def test_shuffled_batches_hold_everything_once():
    out = tf.train.shuffle_batch([numbers(12)], 3, capacity=20, min_after_dequeue=4, seed=5)
    found = np.concatenate(run_all(out))
    assert sorted(found) == list(range(12))
    assert found.tolist() != list(range(12))


@pytest.mark.parametrize("threads", [1, 4])
def test_several_threads_lose_nothing(threads):
    out = tf.train.batch([numbers(40)], 4, num_threads=threads, capacity=8)
    assert sorted(np.concatenate(run_all(out))) == list(range(40))


def test_several_sources_meet():
    out = tf.train.batch_join([[numbers(4)], [numbers(4) + 10]], 8)
    (found,) = run_all(out)
    assert sorted(found) == [0, 1, 2, 3, 10, 11, 12, 13]
    shuffled = tf.train.shuffle_batch_join([[numbers(4)], [numbers(4)]], 2, 10, 2)
    assert str(shuffled.shape) == "(2,)"


def test_some_examples_are_left_out():
    x = numbers(6)
    out = tf.train.maybe_batch([x, x * 2], tf.equal(x % 2, 0), 3)
    found = run_all(out)
    assert [[part.tolist() for part in each] for each in found] == [[[0, 2, 4], [0, 4, 8]]]


def test_some_rows_are_left_out():
    x = numbers(2)
    rows = tf.stack([x, x + 10, x + 20])
    out = tf.train.maybe_shuffle_batch([rows], 2, 10, 0, [True, False, True], enqueue_many=True)
    assert sorted(np.concatenate(run_all(out))) == [0, 1, 20, 21]


def test_unknown_ranks_and_no_tensors_are_refused():
    with pytest.raises(ValueError, match="Cannot infer Tensor's rank"):
        tf.train.batch([tf.placeholder(tf.float32)], 2)
    with pytest.raises(ValueError, match="Expected at least one tensor"):
        tf.train.batch([], 2)
    with pytest.raises(ValueError, match="cannot be a vector"):
        tf.train.maybe_batch([tf.constant(1)], [True], 2)
    with pytest.raises(TypeError, match="Expected types of all inputs"):
        tf.train.batch_join([[tf.constant(1)], [tf.constant(1.0)]], 2)


def test_the_fill_of_a_queue_is_summarised():
    tf.train.batch([numbers(2)], 2, capacity=7)
    names = [each.op.name for each in tf.get_collection(tf.GraphKeys.SUMMARIES)]
    assert any(name.endswith("fraction_of_7_full") for name in names)


@pytest.mark.parametrize("function", ["shuffle_batch", "maybe_shuffle_batch"])
def test_a_capacity_that_no_batch_fits_in_is_refused(function):
    keep = (True,) if function.startswith("maybe") else ()
    for capacity in (3, 5):
        with pytest.raises(ValueError, match=f"capacity {capacity} must be bigger than .* 5"):
            getattr(tf.train, function)([tf.constant(1)], 2, capacity, 5, *keep)
        with pytest.raises(ValueError, match=f"capacity {capacity} must be bigger than .* 5"):
            getattr(tf.train, f"{function}_join")([[tf.constant(1)]], 2, capacity, 5, *keep)
