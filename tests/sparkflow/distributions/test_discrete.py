"""Distributions of classes, counts and fractions against scipy.stats."""

import numpy as np
import pytest
from scipy import stats

import sparkflow as tf

PROBS = np.array([0.3, 0.8])
CLASSES = np.array([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def run(tensors):
    with tf.Session() as session:
        return session.run(tensors)


@pytest.mark.parametrize("given", ["probs", "logits"])
def test_bernoulli(given):
    value = PROBS if given == "probs" else np.log(PROBS / (1 - PROBS))
    made = tf.distributions.Bernoulli(**{given: value})
    wanted = stats.bernoulli(PROBS)
    found = run([made.prob([0, 1]), made.mean(), made.variance(), made.entropy(), made.mode()])
    np.testing.assert_allclose(found[0], wanted.pmf([0, 1]))
    np.testing.assert_allclose(found[1:4], [wanted.mean(), wanted.var(), wanted.entropy()])
    assert found[4].tolist() == [0, 1]


@pytest.mark.parametrize("given", ["probs", "logits"])
def test_categorical(given):
    # Logits may have any offset.
    value = CLASSES if given == "probs" else np.log(CLASSES) + np.array([[3.0], [-2.0]])
    made = tf.distributions.Categorical(**{given: value})
    found = run([made.prob([1, 2]), made.entropy(), made.mode(), made.event_size])
    np.testing.assert_allclose(found[0], [0.5, 0.8])
    np.testing.assert_allclose(found[1], stats.entropy(CLASSES, axis=1))
    assert found[2].tolist() == [1, 2]
    assert found[3] == 3


def test_an_impossible_class_has_no_part_in_the_entropy():
    made = tf.distributions.Categorical(probs=[0.5, 0.5, 0.0])
    assert run(made.entropy()) == pytest.approx(np.log(2))
    assert run(made.prob(2)) == 0.0


def test_multinomial():
    made = tf.distributions.Multinomial(4.0, probs=CLASSES.astype(np.float32))
    counts = np.array([[1.0, 2.0, 1.0], [0.0, 1.0, 3.0]], np.float32)
    wanted = [stats.multinomial(4, p) for p in CLASSES]
    found = run([made.prob(counts), made.mean(), made.variance()])
    np.testing.assert_allclose(
        found[0], [w.pmf(c) for w, c in zip(wanted, counts, strict=True)], rtol=1e-5
    )
    np.testing.assert_allclose(found[1], 4 * CLASSES, rtol=1e-6)
    np.testing.assert_allclose(found[2], 4 * CLASSES * (1 - CLASSES), rtol=1e-6)


def test_dirichlet():
    concentration, value = np.array([2.0, 4.0, 1.5]), np.array([0.2, 0.5, 0.3])
    made = tf.distributions.Dirichlet(concentration)
    wanted = stats.dirichlet(concentration)
    found = run([made.log_prob(value), made.mean(), made.variance(), made.entropy(), made.mode()])
    np.testing.assert_allclose(found[0], wanted.logpdf(value))
    np.testing.assert_allclose(found[1], wanted.mean())
    np.testing.assert_allclose(found[2], wanted.var())
    np.testing.assert_allclose(found[3], wanted.entropy())
    np.testing.assert_allclose(found[4], (concentration - 1) / (concentration.sum() - 3))


def test_a_dirichlet_with_its_weight_in_the_corners_has_no_mode():
    assert np.isnan(run(tf.distributions.Dirichlet([0.5, 4.0]).mode())).all()


def test_divergences():
    d = tf.distributions
    p, q = CLASSES
    found = run(
        [
            d.Categorical(probs=p).kl_divergence(d.Categorical(probs=q)),
            d.Bernoulli(probs=0.3).kl_divergence(d.Bernoulli(probs=0.8)),
            d.Dirichlet([2.0, 3.0]).kl_divergence(d.Dirichlet([2.0, 3.0])),
        ]
    )
    assert found[0] == pytest.approx(stats.entropy(p, q))
    assert found[1] == pytest.approx(stats.entropy([0.3, 0.7], [0.8, 0.2]), rel=1e-5)
    assert found[2] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("kind", ["Bernoulli", "Categorical"])
def test_either_logits_or_probs_are_given(kind):
    make = getattr(tf.distributions, kind)
    with pytest.raises(ValueError, match=r"logits|probs"):
        make()
    with pytest.raises(ValueError, match=r"logits|probs"):
        make(logits=[0.0], probs=[0.5])
