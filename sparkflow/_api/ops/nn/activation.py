"""Activation functions and layers' small change: bias, dropout, normalisation, top k."""

from sparkflow._api.row import Row

ROWS = (
    Row("Relu", "nn.relu", "features", "max(x, 0), elementwise."),
    Row("Relu6", "nn.relu6", "features", "min(max(x, 0), 6), elementwise."),
    Row("Elu", "nn.elu", "features", "x for x > 0, exp(x) - 1 otherwise, elementwise."),
    Row(
        "Selu",
        "nn.selu",
        "features",
        "The scaled exponential linear unit (Klambauer et al. 2017), elementwise.",
    ),
    Row(
        "LeakyRelu",
        "nn.leaky_relu",
        "features, alpha: float = 0.2",
        "x for x > 0, `alpha` x otherwise, elementwise.",
    ),
    Row("Softplus", "math.softplus nn.softplus", "features", "log(1 + exp(x)), elementwise."),
    Row("Softsign", "math.softsign nn.softsign", "features", "x / (1 + |x|), elementwise."),
    Row("L2Loss", "nn.l2_loss", "t", "Half the sum of squares: a scalar."),
)
