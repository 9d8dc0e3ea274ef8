"""Samples of tf.distributions have the moments that the distributions report."""

import numpy as np
import pytest

import sparkflow as tf

COUNT = 20000
MADE = {
    "Normal": lambda d: d.Normal([0.5, -1.0], [1.0, 0.5]),
    "Uniform": lambda d: d.Uniform([0.5, -1.0], [1.0, 0.5]),
    "Laplace": lambda d: d.Laplace([0.5, -1.0], [1.0, 0.5]),
    "StudentT": lambda d: d.StudentT([12.0, 9.0], 1.0, 0.5),
    "Gamma": lambda d: d.Gamma([0.5, 4.0], [1.0, 2.0]),
    "Exponential": lambda d: d.Exponential([0.5, 4.0]),
    "Beta": lambda d: d.Beta([0.5, 4.0], [1.0, 2.0]),
    "Bernoulli": lambda d: d.Bernoulli(probs=[0.3, 0.8]),
    "Dirichlet": lambda d: d.Dirichlet([[0.5, 4.0, 1.0]]),
    "Multinomial": lambda d: d.Multinomial(4.0, probs=[[0.2, 0.5, 0.3]]),
}


def run(tensors):
    with tf.Session() as session:
        return session.run(tensors)


@pytest.mark.parametrize("name", MADE)
def test_samples_have_the_moments_of_their_distribution(name):
    with tf.Graph().as_default():
        made = MADE[name](tf.distributions)
        drawn = made.sample(COUNT, seed=3)
        assert drawn.shape.as_list()[0] == COUNT
        samples, mean, variance = run([drawn, made.mean(), made.variance()])
    np.testing.assert_allclose(samples.mean(axis=0), mean, atol=0.05)
    np.testing.assert_allclose(samples.var(axis=0), variance, rtol=0.1, atol=0.02)


def test_classes_are_drawn_with_their_probabilities():
    with tf.Graph().as_default():
        made = tf.distributions.Categorical(probs=[[0.2, 0.8], [0.7, 0.3]])
        samples = run(made.sample(COUNT, seed=3))
    assert samples.shape == (COUNT, 2)
    np.testing.assert_allclose(samples.mean(axis=0), [0.8, 0.3], atol=0.02)


def test_gradients_flow_through_samples_of_reparameterized_distributions():
    with tf.Graph().as_default():
        loc = tf.constant(2.0)
        normal = tf.distributions.Normal(loc, 1.0)
        (slope,) = tf.gradients(tf.reduce_mean(normal.sample(10)), loc)
        assert run(slope) == pytest.approx(1.0)
        assert normal.reparameterization_type is tf.distributions.FULLY_REPARAMETERIZED
        bernoulli = tf.distributions.Bernoulli(probs=0.5)
        assert bernoulli.reparameterization_type is tf.distributions.NOT_REPARAMETERIZED


def test_divergences_of_own_classes_can_be_registered():
    class Own(tf.distributions.Normal):
        pass

    @tf.distributions.RegisterKL(Own, Own)
    def divergence(a, b):
        return a.loc - b.loc

    with tf.Graph().as_default():
        one, two = Own(3.0, 1.0), Own(1.0, 1.0)
        assert run(one.kl_divergence(two)) == pytest.approx(2.0)
        assert run(two.copy(loc=7.0).mean()) == pytest.approx(7.0)
    with pytest.raises(ValueError, match="already been registered"):
        tf.distributions.RegisterKL(Own, Own)(divergence)
