"""Densities, moments and divergences of tf.distributions, and the shapes of samples."""

PREAMBLE = """
d = tf.distributions
loc = tf.constant([0.5, -1.0, 2.0])
scale = tf.constant([1.0, 0.5, 2.0])
pos = tf.constant([0.7, 2.5, 4.0])
x = tf.constant([0.3, -0.8, 1.7])
p = tf.constant([0.2, 0.5, 0.9])
rows = tf.constant([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
"""
WITH_RESPECT_TO = ("loc", "scale", "pos", "x", "p")
SECOND_ORDER = False
_METHODS = {
    "d.Normal(loc, scale)": ["log_prob(x)", "prob(x)", "cdf(x)", "quantile(p)", "mode()"],
    "d.Uniform(loc, loc + scale)": ["log_prob(p)", "prob(x)", "cdf(x)"],
    "d.Laplace(loc, scale)": ["log_prob(x)", "prob(x)", "cdf(x)", "mode()"],
    "d.StudentT(pos + 2, loc, scale)": ["log_prob(x)", "cdf(x)", "mode()"],
    "d.Gamma(pos, scale)": ["log_prob(pos)", "prob(p)", "cdf(p)", "mode()"],
    "d.Exponential(scale)": ["log_prob(pos)", "cdf(p)"],
    "d.Beta(pos, scale + 1)": ["log_prob(p)", "prob(p)", "cdf(p)", "mode()"],
    "d.Bernoulli(probs=p)": ["log_prob([0, 1, 1])", "prob(1)", "mode()"],
    "d.Bernoulli(logits=x)": ["log_prob([0, 1, 1])", "mode()"],
    "d.Dirichlet(pos + 1)": ["log_prob([.2, .3, .5])", "mode()"],
    "d.Multinomial(4., probs=rows)": ["log_prob([1., 2., 1.])"],
    "d.Categorical(probs=rows)": ["log_prob([0, 2])", "prob([1, 1])", "mode()"],
    "d.Categorical(logits=rows)": ["log_prob([0, 2])"],
}
_NO_MOMENTS = ("d.Categorical",)
_NO_ENTROPY = ("d.Multinomial",)
EXPRESSIONS = "\n".join(
    f"{made}.{method}"
    for made, methods in _METHODS.items()
    for method in [
        *methods,
        *([] if made.startswith(_NO_MOMENTS) else ["mean()", "variance()", "stddev()"]),
        *([] if made.startswith(_NO_ENTROPY) else ["entropy()"]),
    ]
)
EXPRESSIONS += """
d.kl_divergence(d.Normal(loc, scale), d.Normal(x, 1.0))
d.Normal(loc, scale).kl_divergence(d.Normal(x, 1.0))
d.kl_divergence(d.Bernoulli(probs=p), d.Bernoulli(probs=0.4))
d.kl_divergence(d.Categorical(probs=rows), d.Categorical(logits=rows))
d.kl_divergence(d.Gamma(pos, scale), d.Gamma(scale, pos))
d.kl_divergence(d.Beta(pos, scale), d.Beta(scale, pos))
d.kl_divergence(d.Dirichlet(pos), d.Dirichlet(scale))
d.kl_divergence(d.Normal(loc, scale), d.Beta(pos, scale))
d.Normal(loc, scale).cross_entropy(d.Normal(x, 1.0))
d.StudentT([0.5, 1.5, 3.0], 0.0, 1.0).variance()
d.StudentT([0.5, 1.5, 3.0], 0.0, 1.0).mean()
d.Bernoulli(logits=x, probs=p)
d.Normal(0.0, scale).batch_shape_tensor()
d.Dirichlet(rows).event_shape_tensor()
[str(d.Normal(0., scale).batch_shape), str(d.Normal(0., 1.).event_shape)]
str(d.Dirichlet(rows).event_shape)
[d.Normal(0., 1.).dtype.name, d.Bernoulli(probs=.5).dtype.name, d.Normal(0., 1.).name]
tf.shape(d.Normal(loc, scale).sample())
tf.shape(d.Normal(loc, scale).sample(4))
tf.shape(d.Gamma(pos, 1.0).sample([2, 4]))
tf.shape(d.Categorical(probs=rows).sample([5]))
tf.shape(d.Multinomial(4., probs=rows).sample([5]))
tf.shape(d.Dirichlet(rows).sample([5]))
tf.shape(d.Beta(pos, 1.0).sample([5]))
tf.reduce_sum(d.Multinomial(4., probs=rows).sample([5]), -1)
d.Uniform(low=3.0, high=4.0).range()
"""
