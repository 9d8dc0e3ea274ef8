"""`tf.debugging`: checks of tensors, while a graph is built and while it runs.

Made by `scripts/generate_api.py`.
"""

from sparkflow._generated.ops.control.debugging import check_numerics
from sparkflow._generated.ops.elementwise.elementwise import is_finite, is_inf, is_nan
from sparkflow.ops.checks.checks import (
    assert_equal,
    assert_greater,
    assert_greater_equal,
    assert_less,
    assert_less_equal,
    assert_near,
    assert_negative,
    assert_non_negative,
    assert_non_positive,
    assert_none_equal,
    assert_positive,
    is_non_decreasing,
    is_strictly_increasing,
)
from sparkflow.ops.checks.shape_checks import (
    assert_integer,
    assert_proper_iterable,
    assert_rank,
    assert_rank_at_least,
    assert_rank_in,
    assert_same_float_dtype,
    assert_scalar,
    assert_shapes,
    assert_type,
    is_numeric_tensor,
)
from sparkflow.ops.control.debugging import Assert, verify_tensor_all_finite as assert_all_finite

__all__ = [
    "Assert",
    "assert_all_finite",
    "assert_equal",
    "assert_greater",
    "assert_greater_equal",
    "assert_integer",
    "assert_less",
    "assert_less_equal",
    "assert_near",
    "assert_negative",
    "assert_non_negative",
    "assert_non_positive",
    "assert_none_equal",
    "assert_positive",
    "assert_proper_iterable",
    "assert_rank",
    "assert_rank_at_least",
    "assert_rank_in",
    "assert_same_float_dtype",
    "assert_scalar",
    "assert_shapes",
    "assert_type",
    "check_numerics",
    "is_finite",
    "is_inf",
    "is_nan",
    "is_non_decreasing",
    "is_numeric_tensor",
    "is_strictly_increasing",
]
