"""Static shapes inside the runtime: plain tuples, so that inference costs little.

A `Shape` is a tuple of sizes in which `None` stands for an unknown size, or `None` itself when not
even the rank is known. The front end wraps them in TensorFlow's `TensorShape`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from sparkflow_runtime.errors import InvalidArgumentError

Dim: TypeAlias = int | None
Shape: TypeAlias = tuple[Dim, ...] | None

SCALAR: Shape = ()


def text(shape: Shape) -> str:
    """TensorFlow's spelling of a shape: `(?, 3)`, `()`, `<unknown>`."""
    if shape is None:
        return "<unknown>"
    inner = ", ".join("?" if d is None else str(d) for d in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def bracketed(shape: Sequence[Dim] | None) -> str:
    """A shape or vector as TensorFlow's kernels print it: `[2,?]`."""
    if shape is None:
        return "<unknown>"
    return f"[{','.join('?' if dim is None else str(dim) for dim in shape)}]"


def is_fully_defined(shape: Shape) -> bool:
    """Whether rank and every size are known."""
    return shape is not None and None not in shape


def unknown(rank: int | None) -> Shape:
    """A shape of the given rank with unknown sizes; of unknown rank for None."""
    return None if rank is None else (None,) * rank


def num_elements(shape: Shape) -> int | None:
    """The product of the sizes, or None when one of them is unknown."""
    if shape is None:
        return None
    count = 1
    for dim in shape:
        if dim is None:
            return None
        count *= dim
    return count


class UnknownSizeError(Exception):
    """A size was asked for that is not known."""


def sizes(shape: Shape) -> tuple[int, ...]:
    """The sizes of a shape.

    Raises:
        UnknownSizeError: One is not known.
    """
    known = [] if shape is None else [dim for dim in shape if dim is not None]
    if shape is None or len(known) < len(shape):
        raise UnknownSizeError(text(shape))
    return tuple(known)


def size(shape: Shape) -> int:
    """The product of the sizes.

    Raises:
        UnknownSizeError: One is not known.
    """
    return math.prod(sizes(shape))


def merge_dims(a: Dim, b: Dim) -> Dim:
    """The size that both describe.

    Raises:
        InvalidArgumentError: Both are known and differ.
    """
    if a is None:
        return b
    if b is None or a == b:
        return a
    raise InvalidArgumentError(message=f"Dimensions {a} and {b} are not compatible")


def merge(a: Shape, b: Shape) -> Shape:
    """The most specific shape compatible with both.

    Raises:
        InvalidArgumentError: Ranks or sizes differ.
    """
    if a is None:
        return b
    if b is None or a == b:
        return a
    if not is_compatible(a, b):
        raise InvalidArgumentError(message=f"Shapes {text(a)} and {text(b)} are not compatible")
    return tuple(merge_dims(x, y) for x, y in zip(a, b, strict=True))


def difference(a: Sequence[Dim], b: Sequence[Dim]) -> str:
    """TensorFlow's words for how two shapes that should be equal differ."""
    if len(a) != len(b):
        return f"Shapes must be equal rank, but are {len(a)} and {len(b)}"
    pairs = enumerate(zip(a, b, strict=True))
    dim = next(at for at, (x, y) in pairs if None not in (x, y) and x != y)
    return (
        f"Dimension {dim} in both shapes must be equal, but are {a[dim]} and {b[dim]}. "
        f"Shapes are {bracketed(a)} and {bracketed(b)}."
    )


def require_at_least(rank: int, axis: int, detail: str) -> None:
    """Passes when a tensor of this rank has the dimension `axis`, which may count from the end.

    Raises:
        InvalidArgumentError: It has not; `detail` says more in the words of the op.
    """
    if not -rank <= axis < rank:
        least = -axis if axis < 0 else axis + 1
        raise InvalidArgumentError(
            message=f"Shape must be at least rank {least} but is rank {rank}: {detail}"
        )


def is_compatible(a: Shape, b: Shape) -> bool:
    """Whether one concrete shape could satisfy both."""
    if a is None or b is None or a == b:
        return True
    return len(a) == len(b) and all(
        x is None or y is None or x == y for x, y in zip(a, b, strict=True)
    )


def broadcast(a: Shape, b: Shape) -> Shape:
    """The static shape of an elementwise result under numpy's broadcasting rules.

    Raises:
        InvalidArgumentError: The two cannot be broadcast; the text names both.
    """
    if a is None or b is None:
        return None
    if a == b:
        return a
    left = (1,) * (len(b) - len(a)) + a
    right = (1,) * (len(a) - len(b)) + b
    return tuple(_broadcast_dim(x, y, a, b) for x, y in zip(left, right, strict=True))


def _broadcast_dim(x: Dim, y: Dim, a: Shape, b: Shape) -> Dim:
    if x == y:
        return x
    if x == 1:
        return y
    if y == 1:
        return x
    if x is None:
        return y
    if y is None:
        return x
    raise InvalidArgumentError(
        message=f"Dimensions must be equal, but are {x} and {y} for shapes {text(a)} and {text(b)}"
    )


def concatenate(a: Shape, b: Shape) -> Shape:
    """The sizes of `a` followed by those of `b`; unknown when either rank is."""
    return None if a is None or b is None else a + b


def as_shape(value: Iterable[int | None] | None) -> Shape:
    """A checked tuple from any iterable of sizes; -1 means unknown.

    Raises:
        InvalidArgumentError: A size below -1.
    """
    if value is None:
        return None
    dims: list[Dim] = []
    for item in value:
        dim = None if item is None else int(item)
        if dim is not None and dim < -1:
            raise InvalidArgumentError(message=f"A dimension must be >= 0, got {dim}")
        dims.append(None if dim == -1 else dim)
    return tuple(dims)


def canonical_axis(axis: int, rank: int) -> int:
    """`axis` in [0, rank), counting from the end where negative.

    Raises:
        InvalidArgumentError: Outside [-rank, rank).
    """
    if not -rank <= axis < rank:
        raise InvalidArgumentError(message=f"Axis {axis} is outside [{-rank}, {rank})")
    return axis % rank if rank else 0
