"""Gradients of several replicas: who counts, when, and the weighted mean."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
)
from sparkflow_runtime.resources.accumulator import (
    Contribution,
    Outcome,
    Rounds,
    SparseWeightedAccumulator,
    WeightedAccumulator,
)
from sparkflow_runtime.testing.step import FakeStep

DEADLINE_S = 60
ACCEPTED, REPEATED, STALE = Outcome.ACCEPTED, Outcome.REPEATED, Outcome.STALE


def contribution(replica, gradient="g"):
    return Contribution(replica, 1.0, gradient)


class TestRounds:
    def test_a_step_is_ready_when_enough_different_replicas_contributed(self):
        rounds = Rounds()
        assert not rounds.ready(0, 1)
        assert rounds.add(0, contribution(1)) is ACCEPTED
        assert rounds.add(0, contribution(1)) is REPEATED
        assert rounds.ready(0, 1)
        assert not rounds.ready(0, 2)
        assert rounds.add(0, contribution(0)) is ACCEPTED
        assert rounds.ready(0, 2)
        assert not rounds.ready(1, 1)

    def test_the_first_contribution_of_a_replica_counts(self):
        rounds = Rounds()
        rounds.add(0, contribution(0, "first"))
        rounds.add(0, contribution(0, "second"))
        assert [c.gradient for c in rounds.take(0)] == ["first"]
        assert (rounds.repeated, rounds.stale) == (1, 0)

    def test_late_contributions_are_dropped_and_counted(self):
        rounds = Rounds()
        rounds.add(3, contribution(0))
        rounds.take(3)
        assert rounds.add(3, contribution(1)) is STALE
        assert rounds.add(2, contribution(1)) is STALE
        assert rounds.add(4, contribution(1)) is ACCEPTED
        assert (rounds.repeated, rounds.stale) == (0, 2)

    def test_contributions_to_later_steps_wait_for_their_turn(self):
        rounds = Rounds()
        rounds.add(1, contribution(0, "later"))
        rounds.add(0, contribution(0, "now"))
        assert [c.gradient for c in rounds.take(0)] == ["now"]
        assert [c.gradient for c in rounds.take(1)] == ["later"]

    def test_skipped_steps_end_with_the_one_after_them(self):
        rounds = Rounds()
        for step, replica in [(0, 0), (0, 1), (1, 0), (2, 0)]:
            rounds.add(step, contribution(replica))
        assert len(rounds.take(2)) == 1
        assert rounds.stale == 3
        assert rounds.add(1, contribution(5)) is STALE

    def test_a_step_is_taken_once(self):
        rounds = Rounds()
        rounds.take(5)
        for step in (5, 4):
            with pytest.raises(FailedPreconditionError, match=f"Step {step} was taken already"):
                rounds.take(step)

    @pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
    def test_contributions_come_out_by_replica_in_whatever_order_they_arrived(self, order):
        rounds = Rounds()
        for replica in order:
            rounds.add(0, contribution(replica))
        assert [c.replica for c in rounds.take(0)] == [0, 1, 2, 3]

    def test_every_sequence_of_events_obeys_the_rules(self):
        """All sequences of six events over two steps and two replicas, against plain sets."""
        events = [("add", s, r) for s in (0, 1) for r in (0, 1)] + [("take", 0, 0), ("take", 1, 0)]
        for sequence in itertools.product(events, repeat=6):
            rounds, arrived, last = Rounds(), set(), -1
            repeated = stale = 0
            for kind, step, replica in sequence:
                if kind == "add":
                    outcome = rounds.add(step, contribution(replica))
                    if step <= last:
                        assert outcome is STALE
                        stale += 1
                    elif (step, replica) in arrived:
                        assert outcome is REPEATED
                        repeated += 1
                    else:
                        assert outcome is ACCEPTED
                        arrived.add((step, replica))
                elif step > last:
                    expected = sorted(r for s, r in arrived if s == step)
                    assert rounds.ready(step, len(expected))
                    assert not rounds.ready(step, len(expected) + 1)
                    assert [c.replica for c in rounds.take(step)] == expected
                    stale += len([s for s, _ in arrived if s < step])
                    arrived = {(s, r) for s, r in arrived if s > step}
                    last = step
                else:
                    with pytest.raises(FailedPreconditionError):
                        rounds.take(step)
            assert (rounds.repeated, rounds.stale) == (repeated, stale)


def dense(shape=(2,), dtype=dtypes.float32):
    return WeightedAccumulator("a", dtype, shape)


def array(*values, kind=np.float32):
    return np.array(values, kind)


@pytest.fixture
def pool():
    with ThreadPoolExecutor(8) as executor:
        yield executor


class TestWeightedAccumulator:
    def test_the_mean_is_weighted_by_rows(self):
        accumulator = dense()
        accumulator.apply(0, 0, 3, array(1, 2))
        accumulator.apply(0, 1, 1, array(5, -2))
        mean = accumulator.take(0, 2, FakeStep())
        assert mean.dtype == np.float32
        np.testing.assert_array_equal(mean, [2, 1])

    def test_it_is_the_gradient_over_all_rows(self):
        random = np.random.default_rng(1)
        rows = random.standard_normal((10, 4))
        accumulator = dense((4,), dtypes.float64)
        for replica, part in enumerate(np.split(rows, [3, 4])):
            accumulator.apply(7, replica, len(part), part.mean(axis=0))
        mean = accumulator.take(7, 3, FakeStep())
        np.testing.assert_allclose(mean, rows.mean(axis=0), rtol=1e-14)

    def test_a_single_replica_s_gradient_comes_back_bit_for_bit(self):
        gradient = np.random.default_rng(2).standard_normal(1000).astype(np.float32)
        accumulator = dense((1000,))
        accumulator.apply(0, 0, 77, gradient)
        np.testing.assert_array_equal(accumulator.take(0, 1, FakeStep()), gradient)

    def test_the_result_does_not_depend_on_the_order_of_arrival(self):
        random = np.random.default_rng(3)
        gradients = random.standard_normal((5, 1000)).astype(np.float32)
        results = set()
        for order in itertools.permutations(range(5)):
            accumulator = dense((1000,))
            for replica in order:
                accumulator.apply(0, replica, 1 + replica, gradients[replica])
            results.add(accumulator.take(0, 5, FakeStep()).tobytes())
        assert len(results) == 1

    def test_weight_zero_counts_as_arrived_and_its_values_are_ignored(self):
        accumulator = dense()
        accumulator.apply(0, 0, 0, array(np.nan, np.inf))
        accumulator.apply(0, 1, 2, array(1, 2))
        np.testing.assert_array_equal(accumulator.take(0, 2, FakeStep()), [1, 2])

    def test_zeros_when_nobody_has_rows(self):
        accumulator = dense(None)
        for replica in (0, 1):
            accumulator.apply(0, replica, 0, array(np.nan, np.nan))
        mean = accumulator.take(0, 2, FakeStep())
        assert mean.dtype == np.float32
        np.testing.assert_array_equal(mean, [0, 0])

    def test_gradients_are_copied(self):
        accumulator, gradient = dense(), array(1, 2)
        accumulator.apply(0, 0, 1, gradient)
        gradient[:] = 9
        mean = accumulator.take(0, 1, FakeStep())
        np.testing.assert_array_equal(mean, [1, 2])

    def test_more_than_required_all_count(self):
        accumulator = dense()
        for replica in range(3):
            accumulator.apply(0, replica, 1, array(replica, 0))
        np.testing.assert_array_equal(accumulator.take(0, 1, FakeStep()), [1, 0])

    @pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.float64, dtypes.complex64])
    def test_dtypes_are_kept(self, dtype):
        accumulator = dense((), dtype)
        for replica in (0, 1):
            gradient = np.array(replica, dtype.numpy)
            assert accumulator.apply(0, replica, 128, gradient) is ACCEPTED
        mean = accumulator.take(0, 2, FakeStep())
        assert mean.dtype == dtype.numpy
        assert mean == 0.5

    def test_float16_does_not_overflow_by_its_weight(self):
        accumulator = dense((), dtypes.float16)
        accumulator.apply(0, 0, 1000, np.float16(600))
        accumulator.apply(0, 1, 1000, np.float16(200))
        assert accumulator.take(0, 2, FakeStep()) == 400

    def test_taking_waits_for_the_last_replica(self, pool):
        accumulator, step = dense(), FakeStep()
        accumulator.apply(0, 0, 1, array(1, 1))
        taken = pool.submit(accumulator.take, 0, 2, step)
        assert step.waiting.wait(DEADLINE_S)
        accumulator.apply(0, 0, 1, array(5, 5))  # a repetition releases nobody
        accumulator.apply(1, 1, 1, array(5, 5))  # nor does another step
        assert not taken.done()
        accumulator.apply(0, 1, 1, array(3, 3))
        np.testing.assert_array_equal(taken.result(DEADLINE_S), [2, 2])
        assert accumulator.dropped == (1, 0)
        assert step.callbacks == 0

    def test_a_cancelled_wait_takes_nothing(self, pool):
        accumulator, step = dense(), FakeStep()
        accumulator.apply(0, 0, 1, array(1, 1))
        taken = pool.submit(accumulator.take, 0, 2, step)
        assert step.waiting.wait(DEADLINE_S)
        step.cancel()
        with pytest.raises(CancelledError):
            taken.result(DEADLINE_S)
        assert accumulator.apply(0, 1, 1, array(3, 3)) is ACCEPTED
        np.testing.assert_array_equal(accumulator.take(0, 2, FakeStep()), [2, 2])

    def test_taking_twice_fails_instead_of_waiting_for_ever(self):
        accumulator = dense()
        accumulator.apply(4, 0, 1, array(1, 1))
        accumulator.take(4, 1, FakeStep())
        with pytest.raises(FailedPreconditionError, match="Step 4 was taken already"):
            accumulator.take(4, 1, FakeStep())

    def test_closing_releases_who_waits(self, pool):
        accumulator, step = dense(), FakeStep()
        taken = pool.submit(accumulator.take, 0, 1, step)
        assert step.waiting.wait(DEADLINE_S)
        accumulator.close()
        with pytest.raises(AbortedError, match="'a' was dropped"):
            taken.result(DEADLINE_S)
        assert step.callbacks == 0

    def test_many_steps_of_many_replicas(self, pool):
        accumulator, replicas, steps = dense(()), 6, 50

        def replica(number):
            for step in range(steps):
                accumulator.apply(step, number, 1 + number, np.float32(step + number))
                accumulator.apply(step, number, 1, np.float32(np.nan))  # resent

        futures = [pool.submit(replica, number) for number in range(replicas)]
        shift = sum(n * (1 + n) for n in range(replicas)) / sum(range(1, replicas + 1))
        for step in range(steps):
            mean = accumulator.take(step, replicas, FakeStep())
            np.testing.assert_allclose(mean, step + shift, rtol=1e-6)
        for future in futures:
            future.result(DEADLINE_S)
        assert sum(accumulator.dropped) == replicas * steps

    @pytest.mark.parametrize("weight", [-1, np.nan, np.inf])
    def test_weights_are_finite_and_not_negative(self, weight):
        with pytest.raises(InvalidArgumentError, match=rf"Replica 3 .* weight {weight};"):
            dense().apply(0, 3, weight, array(1, 1))

    @pytest.mark.parametrize("weight", [0, 1])
    def test_gradients_have_the_accumulator_s_shape_and_dtype(self, weight):
        with pytest.raises(InvalidArgumentError, match=r"'a' takes .*shape \(2,\), got \(3,\)"):
            dense().apply(0, 0, weight, array(1, 1, 1))
        with pytest.raises(InvalidArgumentError, match=r"'a' holds float32, got .* float64"):
            dense().apply(0, 0, weight, array(1, 1, kind=np.float64))

    def test_gradients_of_unknown_shape_agree_with_each_other(self):
        accumulator = dense(None)
        accumulator.apply(2, 0, 1, array(1, 1))
        accumulator.apply(2, 1, 1, array(1))
        with pytest.raises(InvalidArgumentError) as caught:
            accumulator.take(2, 2, FakeStep())
        assert str(caught.value) == (
            "The gradients for accumulator 'a' in step 2 differ: replica 0 has shape (2,), "
            "replica 1 (1,)"
        )

    def test_somebody_is_required(self):
        with pytest.raises(InvalidArgumentError, match="num_required must be at least 1, got 0"):
            dense().take(0, 0, FakeStep())


def sparse(shape=(10, 2)):
    return SparseWeightedAccumulator("s", dtypes.float32, shape)


def rows(*indices, kind=np.int64):
    return np.array(indices, kind)


def values(*numbers):
    return np.array([[n, -n] for n in numbers], np.float32).reshape(len(numbers), 2)


class TestSparseWeightedAccumulator:
    def test_rows_come_in_the_order_of_replicas_with_their_shares(self):
        accumulator = sparse()
        accumulator.apply(0, 1, 1, rows(7, 2), values(4, 8))
        accumulator.apply(0, 0, 3, rows(2, 2, 5), values(4, 12, 16))
        indices, scaled = accumulator.take(0, 2, FakeStep())
        np.testing.assert_array_equal(indices, [2, 2, 5, 7, 2])
        np.testing.assert_array_equal(scaled, values(3, 9, 12, 1, 2))
        assert scaled.dtype == np.float32

    def test_summed_rows_are_the_dense_mean(self):
        random = np.random.default_rng(4)
        accumulator = sparse()
        total = np.zeros((10, 2))
        for replica, weight in enumerate([5, 2, 9]):
            indices = random.integers(0, 10, 6)
            gradient = random.standard_normal((6, 2)).astype(np.float32)
            np.add.at(total, indices, gradient * weight / 16)
            accumulator.apply(0, replica, weight, indices, gradient)
        summed = np.zeros((10, 2))
        indices, scaled = accumulator.take(0, 3, FakeStep())
        np.add.at(summed, indices, scaled)
        np.testing.assert_allclose(summed, total, rtol=1e-5, atol=1e-6)

    def test_weight_zero_counts_as_arrived_without_rows(self):
        accumulator = sparse()
        accumulator.apply(0, 0, 0, rows(1), values(np.nan))
        accumulator.apply(0, 1, 4, rows(3), values(5))
        indices, scaled = accumulator.take(0, 2, FakeStep())
        np.testing.assert_array_equal(indices, [3])
        np.testing.assert_array_equal(scaled, values(5))

    def test_no_rows_when_nobody_has_any(self):
        accumulator = sparse()
        accumulator.apply(0, 0, 0, rows(1), values(1))
        accumulator.apply(0, 1, 1, rows(), values())
        indices, scaled = accumulator.take(0, 2, FakeStep())
        assert indices.shape == (0,)
        assert scaled.shape == (0, 2)

    def test_rows_are_copied(self):
        accumulator, indices, gradient = sparse(), rows(1), values(1)
        accumulator.apply(0, 0, 1, indices, gradient)
        indices[:], gradient[:] = 9, 9
        taken, scaled = accumulator.take(0, 1, FakeStep())
        np.testing.assert_array_equal(taken, [1])
        np.testing.assert_array_equal(scaled, values(1))

    def test_at_most_once(self):
        accumulator = sparse()
        assert accumulator.apply(0, 0, 1, rows(1), values(1)) is ACCEPTED
        assert accumulator.apply(0, 0, 1, rows(2), values(2)) is REPEATED
        np.testing.assert_array_equal(accumulator.take(0, 1, FakeStep())[0], [1])
        assert accumulator.apply(0, 1, 1, rows(2), values(2)) is STALE
        assert accumulator.dropped == (1, 1)

    def test_wrong_rows(self):
        with pytest.raises(InvalidArgumentError, match=r"shape \(2, 2\), got \(1, 2\)"):
            sparse().apply(0, 0, 1, rows(1, 2), values(1))
        with pytest.raises(InvalidArgumentError, match=r"shape \(1, 3\), got \(1, 2\)"):
            sparse((10, 3)).apply(0, 0, 1, rows(1), values(1))
        with pytest.raises(InvalidArgumentError, match=r"indices of rank 1, got shape \(1, 1\)"):
            sparse().apply(0, 0, 1, rows(1).reshape(1, 1), values(1))
        with pytest.raises(InvalidArgumentError, match="weight -2"):
            sparse().apply(0, 0, -2, rows(1), values(1))
