"""The arithmetic of collectives: merges several ranks' elements, piece by piece in the cache.

Values are merged from left to right. float16 and bfloat16 are added in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime.dtypes import wide

PIECE: Final = 1 << 15
"""Elements per piece: 128 KB of float32 stay in the cache between the passes."""

_MERGE: Final[dict[str, Callable[..., Any]]] = {
    "Add": np.add,
    "Mul": np.multiply,
    "Min": np.minimum,
    "Max": np.maximum,
}

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Merge:
    """How the values of ranks are merged.

    Attributes:
        op: `Add`, `Mul`, `Min` or `Max`.
        divisor: The divisor of complete values; 1 for none. Integers are rounded towards zero.
        shares: A factor per rank for its values, which are ignored if it is 0; None for no factors.
    """

    op: str
    divisor: int = 1
    shares: tuple[float, ...] | None = None


def merge_into(
    out: Array, parts: Sequence[Array], merge: Merge, ranks: Sequence[int], is_last: bool = True
) -> None:
    """Fills `out` with the parts merged in their order.

    Args:
        out: [n]; may be one of the parts.
        parts: Arrays [n] of one dtype.
        merge: How to merge them.
        ranks: The ranks of the parts.
        is_last: Whether the values are then complete, and must be divided.
    """
    shares = merge.shares
    if shares is not None:
        chosen = [each for each in range(len(parts)) if shares[ranks[each]]]
        factors = [shares[ranks[each]] for each in chosen]
        parts = [parts[each] for each in chosen]
        if not parts:
            out.fill(0)
            return
    else:
        factors = []
    divisor = merge.divisor if is_last else 1
    function = _MERGE[merge.op]
    kind = wide(out.dtype)
    is_simple = not factors and kind == out.dtype
    if is_simple and len(parts) == 2 and divisor == 1:
        function(parts[0], parts[1], out=out)
        return
    sums = np.empty(min(PIECE, len(out)), kind)
    values = np.empty_like(sums)
    for start in range(0, len(out), PIECE):
        stop = min(start + PIECE, len(out))
        total, value = sums[: stop - start], values[: stop - start]
        _scaled(parts[0][start:stop], factors[0] if factors else None, total)
        for number, part in enumerate(parts[1:], 1):
            if is_simple:
                function(total, part[start:stop], out=total)
            else:
                _scaled(part[start:stop], factors[number] if factors else None, value)
                function(total, value, out=total)
        if divisor != 1:
            _divide(total, divisor)
        out[start:stop] = total


def _scaled(part: Array, factor: float | None, out: Array) -> None:
    if factor is None:
        out[...] = part
    elif part.dtype == out.dtype:
        np.multiply(part, out.dtype.type(factor), out=out)
    else:
        out[...] = part
        out *= out.dtype.type(factor)


def _divide(values: Array, divisor: int) -> None:
    if values.dtype.kind == "i":
        negative = values < 0
        np.floor_divide(np.abs(values), divisor, out=values)
        np.negative(values, out=values, where=negative)
    else:
        values /= values.dtype.type(divisor)
