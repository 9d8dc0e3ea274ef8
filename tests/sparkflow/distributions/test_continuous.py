"""Distributions of real numbers against scipy.stats."""

import numpy as np
import pytest
from scipy import stats

import sparkflow as tf

AT = np.array([[0.1, 0.35], [0.6, 0.9]])
"""Points in the support of all distributions."""


def real(values):
    return np.array(values, np.float64)


LOC, SCALE = [0.5, -1.0], [1.0, 0.5]
CASES = {
    "Normal": (lambda d: d.Normal(real(LOC), SCALE), stats.norm(LOC, SCALE)),
    "Uniform": (lambda d: d.Uniform(real([0, -1]), [2, 1.5]), stats.uniform([0, -1], [2, 2.5])),
    "Laplace": (lambda d: d.Laplace(real(LOC), SCALE), stats.laplace(LOC, SCALE)),
    "StudentT": (lambda d: d.StudentT(real([5, 9]), 1.0, 0.5), stats.t([5, 9], 1.0, 0.5)),
    "Gamma": (lambda d: d.Gamma(real([2.5, 4]), [1, 2]), stats.gamma([2.5, 4], scale=[1, 0.5])),
    "Exponential": (lambda d: d.Exponential(real([0.5, 4])), stats.expon(scale=[2, 0.25])),
    "Beta": (lambda d: d.Beta(real([2.5, 4]), [1.5, 2]), stats.beta([2.5, 4], [1.5, 2])),
}
"""Distributions of `tf.distributions`, and the same of scipy."""


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def run(tensors):
    with tf.Session() as session:
        return session.run(tensors)


@pytest.mark.parametrize("name", CASES)
def test_densities_and_probabilities(name):
    make, reference = CASES[name]
    made = make(tf.distributions)
    ours = ["log_prob", "prob", "cdf", "log_cdf", "survival_function", "log_survival_function"]
    theirs = ["logpdf", "pdf", "cdf", "logcdf", "sf", "logsf"]
    found = run([getattr(made, each)(AT) for each in ours])
    wanted = [getattr(reference, each)(AT) for each in theirs]
    for mine, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_moments_and_entropy(name):
    make, reference = CASES[name]
    made = make(tf.distributions)
    found = run([made.mean(), made.variance(), made.stddev(), made.entropy()])
    wanted = [reference.mean(), reference.var(), reference.std(), reference.entropy()]
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


@pytest.mark.parametrize("name", ["Normal", "Laplace", "StudentT", "Gamma", "Beta"])
def test_the_mode_is_where_the_density_is_largest(name):
    made = CASES[name][0](tf.distributions)
    mode = made.mode()
    at, below, above = run([made.prob(mode), made.prob(mode - 0.01), made.prob(mode + 0.01)])
    assert (at > below).all()
    assert (at > above).all()


@pytest.mark.parametrize("name", ["Normal"])
def test_quantiles_undo_probabilities(name):
    made = CASES[name][0](tf.distributions)
    np.testing.assert_allclose(run(made.quantile(made.cdf(AT))), AT, rtol=1e-7)


@pytest.mark.parametrize("name", ["Normal", "Gamma", "Beta"])
def test_divergences_are_expectations_of_the_difference(name):
    one = CASES[name][0](tf.distributions)
    other = {
        "Normal": lambda d: d.Normal(real([0.0, 0.0]), [2.0, 2.0]),
        "Gamma": lambda d: d.Gamma(real([2.0, 3.0]), [1.5, 1.0]),
        "Beta": lambda d: d.Beta(real([2.0, 3.0]), [2.0, 3.0]),
    }[name](tf.distributions)
    reference = CASES[name][1]
    x = np.linspace(reference.ppf(1e-9), reference.ppf(1 - 1e-9), 20001)
    values = run([one.kl_divergence(other), one.prob(x) * (one.log_prob(x) - other.log_prob(x))])
    np.testing.assert_allclose(values[0], np.trapezoid(values[1], x, axis=0), rtol=1e-4)


def test_outside_of_the_support_of_a_uniform_there_is_nothing():
    made = tf.distributions.Uniform(0.0, 2.0)
    assert run([made.prob([-0.5, 2.5]), made.cdf([-0.5, 2.5])])[0].tolist() == [0.0, 0.0]
    assert run(made.cdf([-0.5, 2.5])).tolist() == [0.0, 1.0]


def test_moments_that_do_not_exist_are_nan_or_infinite():
    made = tf.distributions.StudentT([0.5, 1.5, 3.0], 0.0, 1.0)
    mean, variance = run([made.mean(), made.variance()])
    assert np.isnan(mean[0])
    assert mean[1:].tolist() == [0.0, 0.0]
    assert np.isnan(variance[0])
    assert np.isinf(variance[1])
    assert variance[2] == pytest.approx(3.0)
