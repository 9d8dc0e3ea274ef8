"""`tf.compat`: text and bytes under Python 2 and 3; `tf.compat.v1`, which is sparkflow itself."""

from sparkflow._api.loading import answers
from sparkflow.compat import v1
from sparkflow.compat.text import (
    as_bytes,
    as_str,
    as_str_any,
    as_text,
    bytes_or_text_types,
    complex_types,
    forward_compatibility_horizon,
    forward_compatible,
    integral_types,
    path_to_str,
    real_types,
)
from sparkflow.graph.shapes.dimension import dimension_at_index, dimension_value

__getattr__ = answers("compat")

__all__ = [
    "as_bytes",
    "as_str",
    "as_str_any",
    "as_text",
    "bytes_or_text_types",
    "complex_types",
    "dimension_at_index",
    "dimension_value",
    "forward_compatibility_horizon",
    "forward_compatible",
    "integral_types",
    "path_to_str",
    "real_types",
    "v1",
]
