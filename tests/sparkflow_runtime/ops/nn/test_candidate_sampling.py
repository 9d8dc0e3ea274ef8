"""Candidate samplers: frequencies, expected counts, reproducibility.

The ops: UniformCandidateSampler, LogUniformCandidateSampler, LearnedUnigramCandidateSampler,
ThreadUnsafeUnigramCandidateSampler, FixedUnigramCandidateSampler, AllCandidateSampler,
ComputeAccidentalHits.
"""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.ops.nn.candidate_sampling import Distribution


def drawn(function, runs=1, **arguments):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(3)
        true = tf.constant([[1], [3]], tf.int64)
        given = {"num_true": 1, "num_sampled": 2000, "unique": False, **arguments}
        result = function(true, **given)
        return [session.run(result) for _ in range(runs)]


def frequencies(samples, classes):
    return np.bincount(samples, minlength=classes) / len(samples)


def test_uniform_samples_and_their_expected_counts():
    ((samples, true, expected),) = drawn(tf.nn.uniform_candidate_sampler, range_max=5)
    np.testing.assert_allclose(frequencies(samples, 5), 0.2, atol=0.05)
    np.testing.assert_allclose(true, [[400], [400]])
    np.testing.assert_allclose(expected, np.full(2000, 400.0))


def test_log_uniform_samples_follow_zipfs_law():
    ((samples, true, _),) = drawn(tf.nn.log_uniform_candidate_sampler, range_max=6)
    chances = np.log(np.arange(2, 8) / np.arange(1, 7)) / np.log(7)
    np.testing.assert_allclose(frequencies(samples, 6), chances, atol=0.05)
    np.testing.assert_allclose(true[:, 0], 2000 * chances[[1, 3]], rtol=1e-5)


def test_unique_samples_differ():
    ((samples, true, _),) = drawn(
        tf.nn.uniform_candidate_sampler, num_sampled=5, unique=True, range_max=6
    )
    assert len(set(samples.tolist())) == 5
    assert (true > 0).all()
    assert (true < 1).all()


@pytest.mark.parametrize(("classes", "count"), [(5, 5), (50, 40), (1000, 64)])
def test_unique_samples_are_the_first_ones_in_the_order_of_the_draws(classes, count):
    weights = np.log1p(1.0 / np.arange(1, classes + 1))
    for seed in range(10):
        found, tries = Distribution(weights).sample(np.random.default_rng(seed), count, True)
        generator, drawn = np.random.default_rng(seed), []
        while len(set(drawn)) < count:
            one_by_one, _ = Distribution(weights).sample(generator, count, False)
            drawn += one_by_one.tolist()
        assert found.tolist() == list(dict.fromkeys(drawn))[:count]
        assert len(set(drawn[:tries])) == count > len(set(drawn[: tries - 1]))


def test_learned_classes_become_likely():
    first, *_, last = drawn(tf.nn.learned_unigram_candidate_sampler, runs=30, range_max=5)
    np.testing.assert_allclose(first[1], 400)
    assert (last[1] > 700).all()


def test_fixed_unigrams_by_list_and_by_file(tmp_path):
    path = tmp_path / "words"
    path.write_text("a,1\nb,2\nc,1\n")
    for source in ({"unigrams": [1, 2, 1]}, {"vocab_file": str(path)}):
        ((samples, true, _),) = drawn(
            tf.nn.fixed_unigram_candidate_sampler, range_max=4, num_reserved_ids=1, **source
        )
        np.testing.assert_allclose(frequencies(samples, 4), [0, 0.25, 0.5, 0.25], atol=0.05)
        np.testing.assert_allclose(true, [[500], [500]])


def test_a_seed_makes_samples_reproducible():
    first, second = (drawn(tf.nn.uniform_candidate_sampler, range_max=50) for _ in range(2))
    np.testing.assert_array_equal(first[0][0], second[0][0])


def test_all_classes_and_accidental_hits():
    ((samples, true, _),) = drawn(tf.nn.all_candidate_sampler, num_sampled=4)
    assert samples.tolist() == [0, 1, 2, 3]
    assert true.tolist() == [[1], [1]]
    with tf.Graph().as_default(), tf.Session() as session:
        hits = tf.nn.compute_accidental_hits(tf.constant([[1], [3]], tf.int64), [3, 1, 3], 1)
        rows, places, weights = session.run(hits)
    assert list(zip(rows, places, strict=True)) == [(0, 1), (1, 0), (1, 2)]
    assert (weights == np.finfo(np.float32).min).all()


def test_wrong_classes_are_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must be in \[0, 3\)"):
        drawn(tf.nn.uniform_candidate_sampler, range_max=3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="too small"):
        drawn(tf.nn.uniform_candidate_sampler, range_max=4, unique=True)
