"""`tf.ragged`: tensors whose rows have different lengths, see `tf.RaggedTensor`."""

from sparkflow._api.loading import answers
from sparkflow.ragged import (  # noqa: F401 - they register what they do for ragged tensors
    dense,
    elementwise,
    embedding,
    flat,
    reducing,
    slicing,
)
from sparkflow.ragged.functions import (
    constant,
    constant_value,
    map_flat_values,
    placeholder,
    range,
    stack_dynamic_partitions,
)
from sparkflow.ragged.rows import row_splits_to_segment_ids, segment_ids_to_row_splits
from sparkflow.ragged.taking import boolean_mask, stack
from sparkflow.ragged.value import RaggedTensorValue

__getattr__ = answers("ragged")

__all__ = [
    "RaggedTensorValue",
    "boolean_mask",
    "constant",
    "constant_value",
    "map_flat_values",
    "placeholder",
    "range",
    "row_splits_to_segment_ids",
    "segment_ids_to_row_splits",
    "stack",
    "stack_dynamic_partitions",
]
