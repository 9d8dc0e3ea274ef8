"""Special functions: gamma, beta, error, zeta and Bessel functions, and integrals."""

from sparkflow._api.row import Row

ROWS = (
    Row("Lgamma", "lgamma math.lgamma math.special.lgamma", "x", "Log |Γ(x)|, elementwise."),
    Row(
        "Digamma",
        "digamma math.digamma math.special.digamma",
        "x",
        "The derivative of log Γ(x), elementwise.",
    ),
    Row("Erfc", "erfc math.erfc math.special.erfc", "x", "1 - erf(x), exact for large x."),
    Row("Erfinv", "math.erfinv math.special.erfinv", "x", "The inverse of erf, on (-1, 1)."),
    Row(
        "Ndtri",
        "math.ndtri math.special.ndtri",
        "x",
        "The quantile of the standard normal distribution, on (0, 1).",
    ),
    Row(
        "BesselI0",
        "math.bessel_i0 math.special.bessel_i0",
        "x",
        "The modified Bessel function of order 0.",
    ),
    Row(
        "BesselI0e", "math.bessel_i0e math.special.bessel_i0e", "x", "exp(-|x|) times `bessel_i0`."
    ),
    Row(
        "BesselI1",
        "math.bessel_i1 math.special.bessel_i1",
        "x",
        "The modified Bessel function of order 1.",
    ),
    Row(
        "BesselI1e", "math.bessel_i1e math.special.bessel_i1e", "x", "exp(-|x|) times `bessel_i1`."
    ),
    Row(
        "BesselJ0",
        "math.special.bessel_j0",
        "x",
        "The Bessel function of the first kind of order 0.",
    ),
    Row(
        "BesselJ1",
        "math.special.bessel_j1",
        "x",
        "The Bessel function of the first kind of order 1.",
    ),
    Row(
        "BesselK0",
        "math.special.bessel_k0",
        "x",
        "The modified Bessel function of the second kind of order 0.",
    ),
    Row("BesselK0e", "math.special.bessel_k0e", "x", "exp(x) times `bessel_k0`."),
    Row(
        "BesselK1",
        "math.special.bessel_k1",
        "x",
        "The modified Bessel function of the second kind of order 1.",
    ),
    Row("BesselK1e", "math.special.bessel_k1e", "x", "exp(x) times `bessel_k1`."),
    Row(
        "BesselY0",
        "math.special.bessel_y0",
        "x",
        "The Bessel function of the second kind of order 0.",
    ),
    Row(
        "BesselY1",
        "math.special.bessel_y1",
        "x",
        "The Bessel function of the second kind of order 1.",
    ),
    Row(
        "Dawsn",
        "math.special.dawsn",
        "x",
        "Dawson's integral: exp(-x²) times the integral of exp(t²) from 0 to x.",
    ),
    Row("Expint", "math.special.expint", "x", "The exponential integral Ei."),
    Row("FresnelCos", "math.special.fresnel_cos", "x", "The integral of cos(πt²/2) from 0 to x."),
    Row("FresnelSin", "math.special.fresnel_sin", "x", "The integral of sin(πt²/2) from 0 to x."),
    Row(
        "Spence",
        "math.special.spence",
        "x",
        "The integral of log(t) / (1 - t) from 1 to x: the dilogarithm of 1 - x.",
    ),
    Row(
        "Igamma",
        "igamma math.igamma math.special.igamma",
        "a, x",
        "The regularised lower incomplete gamma function P(a, x).",
    ),
    Row(
        "Igammac",
        "igammac math.igammac math.special.igammac",
        "a, x",
        "The regularised upper incomplete gamma function Q(a, x).",
    ),
    Row(
        "Polygamma",
        "polygamma math.polygamma math.special.polygamma",
        "a, x",
        "The derivative number `a` of `digamma` at x.",
    ),
    Row(
        "Zeta",
        "zeta math.zeta math.special.zeta",
        "x, q",
        "The Hurwitz zeta function: the sum of (n + q)^-x over n.",
    ),
    Row(
        "Betainc",
        "betainc math.betainc math.special.betainc",
        "a, b, x",
        "The regularised incomplete beta function I_x(a, b).",
    ),
)
