"""What rows of the table cannot test of random ops: distributions, streams, seeds."""

import threading

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - random ops read constants
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError
from support.eager import EagerBuilder

SHAPE = np.array([200, 100], np.int32)
FLOATING = sorted(dtypes.FLOATING, key=int)


def draw(op, *inputs, g=None, name=None, **attrs):
    g = g or EagerBuilder()
    return getattr(g, op)(*inputs, name=name, **{"seed": 7, "seed2": 3, **attrs}).value


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_uniform_numbers_fill_the_interval_without_1(dtype):
    x = draw("RandomUniform", SHAPE, dtype=dtype)
    assert x.shape == (200, 100)
    assert x.dtype == dtype.as_numpy_dtype
    assert x.min() >= 0
    assert x.max() < 1
    counts, _ = np.histogram(x, 10, (0, 1))
    assert abs(counts - 2000).max() < 200  # 4.7 standard deviations


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_normal_numbers_have_the_moments_of_the_normal_distribution(dtype):
    x = draw("RandomStandardNormal", SHAPE, dtype=dtype).astype(np.float64)
    assert abs(x.mean()) < 0.03
    assert abs(x.std() - 1) < 0.03
    assert abs((x**4).mean() - 3) < 0.3
    assert abs(x).max() > 3


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_truncated_normal_numbers_end_at_2_deviations(dtype):
    x = draw("TruncatedNormal", SHAPE, dtype=dtype).astype(np.float64)
    assert abs(x).max() <= 2
    assert abs(x.mean()) < 0.03
    assert abs(x.std() - 0.8796) < 0.03  # that of the normal distribution truncated at 2
    assert 0.024 < (abs(x) > 1.8).mean() < 0.031  # 0.0264 of the remaining 0.9545


@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.int64], ids=str)
def test_uniform_integers_include_minval_and_exclude_maxval(dtype):
    low, high = (np.array(bound, dtype.numpy) for bound in (-3, 4))
    x = draw("RandomUniformInt", SHAPE, low, high)
    assert x.dtype == dtype.numpy
    values, counts = np.unique(x, return_counts=True)
    assert values.tolist() == list(range(-3, 4))
    assert abs(counts - 20000 / 7).max() < 250


def test_uniform_integers_need_a_range():
    g = EagerBuilder()
    bounds = [g.tensor(np.array(5, np.int32))] * 2
    with pytest.raises(InvalidArgumentError, match=r"^Need minval < maxval, got 5 >= 5$"):
        draw("RandomUniformInt", SHAPE, *bounds, g=g)
    with pytest.raises(InvalidArgumentError, match=r"^Need minval < maxval, got 6 >= 5$"):
        draw("RandomUniformInt", SHAPE, np.array(6, np.int32), np.array(5, np.int32))


def test_shuffle_permutes_slices():
    x = np.arange(300.0).reshape(100, 3)
    shuffled = draw("RandomShuffle", x)
    assert not np.array_equal(shuffled, x)
    np.testing.assert_array_equal(shuffled[shuffled[:, 0].argsort()], x)
    assert draw("RandomShuffle", np.array(2.5)) == 2.5


def test_classes_are_drawn_with_the_probabilities_of_softmax():
    logits = np.log(np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 1e-30]]))
    x = draw("Multinomial", logits, np.array(20000, np.int32), output_dtype=dtypes.int32)
    assert x.shape == (2, 20000)
    assert x.dtype == np.int32
    for row, expected in zip(x, ([0.1, 0.2, 0.7], [0.5, 0.5, 0.0]), strict=True):
        np.testing.assert_allclose(np.bincount(row, minlength=3) / 20000, expected, atol=0.02)
    assert draw("Multinomial", logits, np.array(0, np.int32)).shape == (2, 0)


@pytest.mark.parametrize("dims", [(), (0, 3), (4,)])
def test_shape_may_be_empty(dims):
    shape = np.array(dims, np.int32)
    for op in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal"):
        assert draw(op, shape, dtype=dtypes.float32).shape == dims
    bounds = np.array(0, np.int32), np.array(2, np.int32)
    assert draw("RandomUniformInt", shape, *bounds).shape == dims


def test_negative_sizes_are_refused():
    with pytest.raises(
        InvalidArgumentError, match=r"^shape must have no negative size, got \[-2\]"
    ):
        draw("RandomUniform", np.array([-2], np.int32), dtype=dtypes.float32)


def test_a_node_goes_on_with_its_stream_in_every_step_of_a_session():
    g = EagerBuilder()
    steps = [draw("RandomUniform", SHAPE, dtype=dtypes.float32, g=g, name="u") for _ in range(2)]
    assert not np.array_equal(*steps)
    other_session = draw("RandomUniform", SHAPE, dtype=dtypes.float32, name="u")
    np.testing.assert_array_equal(other_session, steps[0])


def test_nodes_with_equal_seeds_do_not_share_a_stream():
    g = EagerBuilder()
    first, second = (
        draw("RandomUniform", SHAPE, dtype=dtypes.float32, g=g, name=name) for name in "ab"
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("seeds", [(7, 4), (8, 3), (0, 3), (7, 0), (-7, 3)])
def test_each_seed_counts(seeds):
    reference = draw("RandomUniform", SHAPE, dtype=dtypes.float32)
    seed, seed2 = seeds
    other = draw("RandomUniform", SHAPE, dtype=dtypes.float32, seed=seed, seed2=seed2)
    assert not np.array_equal(reference, other)


def test_without_seeds_every_session_draws_other_numbers():
    x, y = (draw("RandomUniform", SHAPE, dtype=dtypes.float32, seed=0, seed2=0) for _ in range(2))
    assert not np.array_equal(x, y)


def test_concurrent_steps_draw_different_parts_of_the_stream():
    g = EagerBuilder()
    drawn = []

    def step():
        drawn.append(draw("RandomUniform", SHAPE, dtype=dtypes.float64, g=g, name="u"))

    threads = [threading.Thread(target=step) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(np.unique(np.stack(drawn))) == 8 * 20000


def test_gamma_numbers_have_the_moments_of_their_parameters():
    alpha = np.array([0.5, 3.0, 40.0])
    x = draw("RandomGamma", np.array([20000], np.int32), alpha)
    assert x.shape == (20000, 3)
    assert (x > 0).all()
    np.testing.assert_allclose(x.mean(axis=0), alpha, rtol=0.05)
    np.testing.assert_allclose(x.var(axis=0), alpha, rtol=0.1)


def test_gamma_numbers_have_the_gradient_of_their_mean():
    """The mean is alpha: the mean of the derivatives by alpha is 1."""
    g = EagerBuilder()
    alpha = g.tensor(np.array([0.7, 4.0]))
    x = g.RandomGamma(np.array([20000], np.int32), alpha, seed=7, seed2=3)
    mean = g.Mean(x, np.array([0], np.int32))
    (slope,) = g.gradients([mean], [alpha], [g.tensor(np.ones(2))])
    np.testing.assert_allclose(slope.read(), [1, 1], rtol=0.05)


@pytest.mark.parametrize("op", ["RandomPoisson", "RandomPoissonV2"])
def test_poisson_numbers_have_the_moments_of_their_rate(op):
    rate = np.array([0.3, 5.0, 100.0])
    x = draw(op, np.array([20000], np.int32), rate, dtype=dtypes.float64)
    assert x.shape == (20000, 3)
    assert (x == np.round(x)).all()
    np.testing.assert_allclose(x.mean(axis=0), rate, rtol=0.05)
    np.testing.assert_allclose(x.var(axis=0), rate, rtol=0.1)


def test_parameterized_truncated_normal_numbers_stay_between_their_ends():
    means, deviations, low, high = np.array([0.0, 5.0]), np.ones(2), np.array([-1.0, 4.0]), 9.0
    x = draw(
        "ParameterizedTruncatedNormal",
        np.array([2, 20000], np.int32),
        means,
        deviations,
        low,
        np.full(2, high),
        dtype=dtypes.float64,
    )
    assert (x.min(axis=1) >= low).all()
    assert (x.max(axis=1) <= high).all()
    # Of a standard normal above -1: density(1) / (1 - cdf(-1)) = 0.2876.
    np.testing.assert_allclose(x.mean(axis=1), [0.2876, 5.2876], atol=0.02)
    one = np.ones(1)
    with pytest.raises(InvalidArgumentError, match="minvals must be below maxvals"):
        draw("ParameterizedTruncatedNormal", np.array([1], np.int32), one, one, one, one)


STATELESS = {
    "StatelessRandomUniform": {},
    "StatelessRandomNormal": {},
    "StatelessTruncatedNormal": {},
    "StatelessRandomUniformFullInt": {"dtype": dtypes.int32},
}


def stateless(op, seed, *inputs, **attrs):
    return getattr(EagerBuilder(), op)(*inputs[:1], np.array(seed), *inputs[1:], **attrs).value


@pytest.mark.parametrize("op", STATELESS)
def test_seeds_alone_decide_stateless_numbers(op):
    attrs = STATELESS[op]
    x, same, other, swapped = (
        stateless(op, seed, SHAPE, **attrs) for seed in ((1, 2), (1, 2), (1, 3), (2, 1))
    )
    np.testing.assert_array_equal(x, same)
    assert not np.array_equal(x, other)
    assert not np.array_equal(x, swapped)


def test_stateless_numbers_have_their_distributions():
    uniform = stateless("StatelessRandomUniform", (1, 2), SHAPE)
    assert 0 <= uniform.min() < uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.01
    normal = stateless("StatelessRandomNormal", (1, 2), SHAPE)
    assert abs(normal.mean()) < 0.03
    assert abs(normal.std() - 1) < 0.03
    assert np.abs(stateless("StatelessTruncatedNormal", (1, 2), SHAPE)).max() <= 2
    ends = np.array(-2, np.int32), np.array(3, np.int32)
    integers = stateless("StatelessRandomUniformInt", (1, 2), SHAPE, *ends)
    assert sorted(set(integers.ravel().tolist())) == [-2, -1, 0, 1, 2]
    gamma = stateless("StatelessRandomGammaV2", (1, 2), np.array([9000, 2]), np.array([1.0, 8.0]))
    np.testing.assert_allclose(gamma.mean(axis=0), [1, 8], rtol=0.05)
    shape = np.array([9000, 2])
    poisson = stateless("StatelessRandomPoisson", (1, 2), shape, np.array([1.0, 8]), dtype="int64")
    np.testing.assert_allclose(poisson.mean(axis=0), [1, 8], rtol=0.05)


def test_stateless_classes_follow_their_logits():
    g = EagerBuilder()
    logits, count = np.log([[0.2, 0.8]]), np.array(9000, np.int32)
    drawn = g.StatelessMultinomial(logits, count, np.array([1, 2])).value
    assert drawn.shape == (1, 9000)
    assert abs(drawn.mean() - 0.8) < 0.02


def test_wrong_stateless_seeds_and_shapes_are_refused():
    with pytest.raises(InvalidArgumentError, match=r"seed must have shape \[2\], not \[3\]"):
        stateless("StatelessRandomNormal", (1, 2, 3), SHAPE)
    with pytest.raises(InvalidArgumentError, match="must end with broadcasted shape"):
        stateless("StatelessRandomGammaV2", (1, 2), np.array([2]), np.ones(3))
