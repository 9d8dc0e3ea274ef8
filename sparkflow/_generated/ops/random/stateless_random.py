"""Random numbers that a seed of two integers determines, in every run the same.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/random/stateless_random.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import as_dtype
from sparkflow_runtime.dtypes import int64

__all__ = [
    "stateless_multinomial",
]


def stateless_multinomial(
    logits: Any, num_samples: Any, seed: Any, output_dtype: Any = int64, name: str | None = None
) -> Tensor:
    """Classes drawn with the probabilities softmax(logits): [batch, num_samples].

    Args:
        logits: Matrix of any real number.
        num_samples: Scalar of int32.
        seed: Vector of int32 or int64.
        output_dtype: The dtype: int32 or int64.
        name: Name of the node (`stateless_multinomial` when None).

    Returns:
        A tensor of dtype `output_dtype`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op(
        "StatelessMultinomial",
        logits,
        num_samples,
        seed,
        output_dtype=as_dtype(output_dtype),
        name=name or "stateless_multinomial",
    )
    return result
