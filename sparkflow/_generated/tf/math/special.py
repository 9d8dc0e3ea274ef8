"""`tf.math.special`: gamma, error, zeta and Bessel functions, and integrals.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow._generated.ops.elementwise.special": (
            "bessel_i0 bessel_i0e bessel_i1 bessel_i1e bessel_j0 bessel_j1 bessel_k0 "
            "bessel_k0e bessel_k1 bessel_k1e bessel_y0 bessel_y1 betainc dawsn digamma erfc "
            "erfinv expint fresnel_cos fresnel_sin igamma igammac lgamma ndtri polygamma "
            "spence zeta"
        ),
        "sparkflow.ops.elementwise.special": "erfcinv",
        "sparkflow.ops.reduction.reduction": "lbeta",
    },
)
