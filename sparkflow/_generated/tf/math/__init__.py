"""`tf.math`: the mathematical functions under their newer names.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow._generated.ops.elementwise.comparison": (
            "equal greater greater_equal less less_equal logical_and logical_not logical_or "
            "not_equal"
        ),
        "sparkflow._generated.ops.elementwise.elementwise": (
            "acos acosh asin asinh atan atan2 atanh ceil cos cosh div_no_nan "
            "div_no_nan:divide_no_nan erf exp expm1 floor floordiv floormod is_finite is_inf "
            "is_nan log log1p maximum minimum multiply multiply_no_nan negative nextafter pow "
            "reciprocal rint rsqrt sigmoid sign sin sinh sqrt square squared_difference "
            "subtract tan tanh xdivy xlog1py xlogy"
        ),
        "sparkflow._generated.ops.elementwise.special": (
            "bessel_i0 bessel_i0e bessel_i1 bessel_i1e betainc digamma erfc erfinv igamma "
            "igammac lgamma ndtri polygamma zeta"
        ),
        "sparkflow._generated.ops.indexing.reordering": "invert_permutation",
        "sparkflow._generated.ops.indexing.segment": (
            "segment_max segment_mean segment_min segment_prod segment_sum "
            "unsorted_segment_max unsorted_segment_min unsorted_segment_prod "
            "unsorted_segment_sum"
        ),
        "sparkflow._generated.ops.nn.activation": "softplus softsign",
        "sparkflow._generated.ops.reduction.reduction": "cumprod cumsum cumulative_logsumexp",
        "sparkflow.ops.checks.checks": "is_non_decreasing is_strictly_increasing",
        "sparkflow.ops.elementwise.comparison": "logical_xor",
        "sparkflow.ops.elementwise.complex": "angle conj imag real",
        "sparkflow.ops.elementwise.elementwise": (
            "abs accumulate_n add add_n divide log_sigmoid mod polyval reciprocal_no_nan "
            "round scalar_mul truediv"
        ),
        "sparkflow.ops.elementwise.special": "erfcinv",
        "sparkflow.ops.indexing.histogram": "bincount confusion_matrix",
        "sparkflow.ops.indexing.segment": "unsorted_segment_mean unsorted_segment_sqrt_n",
        "sparkflow.ops.indexing.sorting": "approx_max_k approx_min_k",
        "sparkflow.ops.nn.activation": "in_top_k log_softmax softmax top_k zero_fraction",
        "sparkflow.ops.nn.normalization": "l2_normalize",
        "sparkflow.ops.reduction.reduction": (
            "argmax argmin count_nonzero lbeta reduce_all reduce_any reduce_euclidean_norm "
            "reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod reduce_std "
            "reduce_sum reduce_variance"
        ),
    },
    "special",
)
