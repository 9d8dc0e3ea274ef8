"""`tf.debugging`: checks of tensors, while a graph is built and while it runs.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow._generated.ops.control.debugging": "check_numerics",
        "sparkflow._generated.ops.elementwise.elementwise": "is_finite is_inf is_nan",
        "sparkflow.ops.checks.checks": (
            "assert_equal assert_greater assert_greater_equal assert_less assert_less_equal "
            "assert_near assert_negative assert_non_negative assert_non_positive "
            "assert_none_equal assert_positive is_non_decreasing is_strictly_increasing"
        ),
        "sparkflow.ops.checks.shape_checks": (
            "assert_integer assert_proper_iterable assert_rank assert_rank_at_least "
            "assert_rank_in assert_same_float_dtype assert_scalar assert_shapes assert_type "
            "is_numeric_tensor"
        ),
        "sparkflow.ops.control.debugging": "Assert verify_tensor_all_finite:assert_all_finite",
    },
)
