"""Einstein summation: sums of products of tensors with named dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.codegen.ir.kernel import NARROW
from sparkflow_runtime.dtypes import NUMERIC, as_dtype, int32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.once import latest, once
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.elementwise.elementwise_table import conjugated
from sparkflow_runtime.ops.native.matrix_products import bind_product
from sparkflow_runtime.ops.op import Array, Inference, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import int_attr, string_attr, type_attr
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.shapes import Dim, Shape

_ELLIPSIS = "..."


@dataclass(frozen=True, slots=True)
class Subscripts:
    """One side of an equation for one tensor.

    Attributes:
        before: The labels before the ellipsis, or all of them.
        after: The labels after it.
        has_ellipsis: Whether there is one.
    """

    before: str
    after: str
    has_ellipsis: bool

    @classmethod
    def of(cls, text: str) -> Subscripts:
        """Reads `ab...c`.

        Raises:
            InvalidArgumentError: It has something other than letters and a single ellipsis.
        """
        before, ellipsis, after = text.replace(" ", "").partition(_ELLIPSIS)
        labels = before + after
        if labels and not (labels.isascii() and labels.isalpha()):
            raise InvalidArgumentError(
                message=f"Subscripts must be letters and at most one ellipsis, got {text!r}"
            )
        return cls(before, after, bool(ellipsis))

    @property
    def labels(self) -> str:
        """All labels in order."""
        return self.before + self.after

    @property
    def text(self) -> str:
        """As written in an equation."""
        return self.before + (_ELLIPSIS if self.has_ellipsis else "") + self.after

    def name(self, shape: Sequence[Dim]) -> tuple[list[tuple[str, Dim]], tuple[Dim, ...]]:
        """(label and size of the named dimensions, sizes under the ellipsis).

        Raises:
            InvalidArgumentError: The rank does not match.
        """
        covered = len(shape) - len(self.labels)
        if covered < 0 or (covered and not self.has_ellipsis):
            raise InvalidArgumentError(
                message=f"Expected input with subscripts {self.text!r} to have rank "
                f"{'at least ' if self.has_ellipsis else ''}{len(self.labels)}, "
                f"got shape {bracketed(shape)}"
            )
        start = len(self.before)
        named = [*shape[:start], *shape[start + covered :]]
        return list(zip(self.labels, named, strict=True)), tuple(shape[start : start + covered])


def parse(equation: str, count: int) -> tuple[list[Subscripts], Subscripts]:
    """The subscripts of the inputs and of the output.

    Raises:
        InvalidArgumentError: No arrow, another number of inputs, or an unknown output label.
    """
    left, arrow, right = equation.partition("->")
    inputs = [Subscripts.of(part) for part in left.split(",")]
    if not arrow or len(inputs) != count:
        raise InvalidArgumentError(
            message=f"Expected an equation with {count} inputs and `->`, got {equation!r}"
        )
    output = Subscripts.of(right)
    known = "".join(each.labels for each in inputs)
    unknown = sorted(set(output.labels) - set(known))
    if unknown:
        raise InvalidArgumentError(
            message=f"Output subscripts contain the label {unknown[0]!r} that is in no input: "
            f"{equation!r}"
        )
    return inputs, output


@register
class Einsum(Op):
    """The product of the inputs, summed over all labels that the output lacks."""

    widens = NARROW
    inputs = "inputs: N * T"
    outputs = "output: T"
    aliases = frozenset({"inputs"})
    is_view = True
    attrs = {"equation": string_attr(), "N": int_attr(minimum=1), "T": type_attr(NUMERIC)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The sizes of the output's labels."""
        inputs, output = parse(node.attrs["equation"], node.attrs["N"])
        sizes: dict[str, Dim] = {}
        covered: Shape = ()
        for subscripts, shape in zip(inputs, node.shapes, strict=True):
            if shape is None:
                covered = None if subscripts.has_ellipsis else covered
                continue
            named, rest = subscripts.name(shape)
            covered = shapes.broadcast(covered, rest)
            for label, size in named:
                known = sizes.get(label)
                if None not in (known, size) and known != size:
                    raise InvalidArgumentError(
                        message=f"Expected dimension {label!r} to have one size, got {known} "
                        f"and {size}"
                    )
                sizes[label] = size if known is None else known
        if covered is None and output.has_ellipsis:
            return [None]
        before = tuple(sizes.get(label) for label in output.before)
        after = tuple(sizes.get(label) for label in output.after)
        return [(*before, *((covered or ()) if output.has_ellipsis else ()), *after)]

    def compute(self, xp: Any, *values: Array, equation: str) -> Array:
        """The sums.

        Raises:
            InvalidArgumentError: Ranks or sizes do not match the equation.
        """
        inputs, output = parse(equation, len(values))
        sizes: dict[str, int] = {}
        for subscripts, value in zip(inputs, values, strict=True):
            for label, size in subscripts.name(value.shape)[0]:
                if sizes.setdefault(label, size or 0) != size:
                    raise InvalidArgumentError(
                        message=f"Expected dimension {label!r} to have one size, got "
                        f"{sizes[label]} and {size}"
                    )
        plan = _product_of(equation) if xp is np else None
        if plan is not None and values[0].dtype in (np.float32, np.float64):
            return plan.product(*values)
        unique = "".join(dict.fromkeys(output.labels))
        target = unique if not output.has_ellipsis else _ELLIPSIS + unique
        left = ",".join(each.text for each in inputs)
        lead = max((v.ndim - len(s.labels) for s, v in zip(inputs, values, strict=True)), default=0)
        summed_ellipsis = not output.has_ellipsis and lead > 0
        if summed_ellipsis:
            target = _ELLIPSIS + unique
        result = xp.einsum(f"{left}->{target}", *values, **_options(xp, values))
        if summed_ellipsis:
            result = result.sum(tuple(range(lead)))
            lead = 0
        return _spread(xp, xp.asarray(result, values[0].dtype), output, unique, sizes, lead)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> list[Tensor]:
        """For each input the sum of products of dy and the other inputs."""
        inputs, output = parse(op.attr("equation"), op.attr("N"))
        return [
            _gradient(g, index, list(op.inputs), inputs, output, dy) for index in range(len(inputs))
        ]


@dataclass(frozen=True, slots=True)
class _Product:
    """An equation that is a batched matrix product.

    Attributes:
        left, right: The order of the factors' dimensions: batch, then matrix dimensions; a factor
            is transposed if its last dimension is not the one summed over (left) or is (right).
        counts: Numbers of batch, row, column and summed dimensions.
        turns: Whether the factors are transposed.
        order: The order of the output's dimensions among batch, rows and columns.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    counts: tuple[int, int, int, int]
    turns: tuple[bool, bool]
    order: tuple[int, ...]

    def product(self, left: Array, right: Array) -> Array:
        """The output of the equation."""
        left, right = left.transpose(self.left), right.transpose(self.right)
        stacked, rows, columns, summed = self.counts
        first = [stacked, summed, rows] if self.turns[0] else [stacked, rows, summed]
        second = [stacked, columns, summed] if self.turns[1] else [stacked, summed, columns]
        stack = left.shape[:stacked]
        row_sizes, column_sizes = (
            each.shape[stacked + (summed if is_behind else 0) :][:count]
            for each, is_behind, count in (
                (left, self.turns[0], rows),
                (right, not self.turns[1], columns),
            )
        )
        multiply = _multiply(left.dtype.type, *self.turns)
        made = multiply(_grouped(left, first), _grouped(right, second))
        return made.reshape((*stack, *row_sizes, *column_sizes)).transpose(self.order)


def _grouped(array: Array, counts: Sequence[int]) -> Array:
    """Reshapes the array, merging groups of dimensions."""
    sizes, place = [], 0
    for count in counts:
        sizes.append(math.prod(array.shape[place : place + count]))
        place += count
    return array.reshape(sizes)


@once
def _multiply(
    kind: type[Any], turns_left: bool, turns_right: bool
) -> Callable[[Array, Array], Array]:
    def turn(array: Array) -> Array:
        return array.swapaxes(-1, -2)

    turns = (turn if each else None for each in (turns_left, turns_right))
    return bind_product(np, as_dtype(kind), *turns)


@latest(256)
def _product_of(equation: str) -> _Product | None:
    """The equation of two inputs as a batched matrix product; None if it is not one."""
    if equation.count(",") != 1:
        return None
    (first, second), output = parse(equation, 2)
    if any(each.has_ellipsis for each in (first, second, output)):
        return None
    x, y, z = first.labels, second.labels, output.labels
    if any(len(set(each)) < len(each) for each in (x, y, z)):
        return None
    stack = [label for label in z if label in x and label in y]
    rows = [label for label in z if label not in y]
    columns = [label for label in z if label not in x]
    summed = [label for label in x if label not in z]
    if not summed or set(summed) != set(y) - set(z):
        return None  # no matrix product, or something is summed before
    turns = x[-1] not in summed, y[-1] in summed
    left = [*stack, *summed, *rows] if turns[0] else [*stack, *rows, *summed]
    right = [*stack, *columns, *summed] if turns[1] else [*stack, *summed, *columns]
    made = [*stack, *rows, *columns]
    return _Product(
        tuple(map(x.index, left)),
        tuple(map(y.index, right)),
        (len(stack), len(rows), len(columns), len(summed)),
        turns,
        tuple(map(made.index, z)),
    )


def _options(xp: Any, values: Sequence[Array]) -> dict[str, Any]:
    is_small = any(v.dtype == np.float16 for v in values)
    options: dict[str, Any] = {"optimize": len(values) > 1}
    if is_small:
        options["dtype"] = np.float32
    return options if xp is np else {}


def _spread(
    xp: Any, value: Array, output: Subscripts, unique: str, sizes: Mapping[str, int], lead: int
) -> Array:
    """`value` with dimensions (ellipsis, unique labels) in the output's order.

    A label that the output repeats runs along a diagonal, with zeros elsewhere.
    """
    if len(unique) != len(output.labels):
        whole = xp.zeros(
            (*value.shape[:lead], *(sizes[label] for label in output.labels)), value.dtype
        )
        # A view of the diagonal has the sum of the strides.
        strides = [
            sum(
                whole.strides[lead + place]
                for place, each in enumerate(output.labels)
                if each == label
            )
            for label in unique
        ]
        view = np.lib.stride_tricks.as_strided if xp is np else xp.lib.stride_tricks.as_strided
        view(whole, value.shape, (*whole.strides[:lead], *strides))[...] = value
        value = whole
    if output.has_ellipsis and output.before:
        count = len(output.before)
        order = [
            *range(lead, lead + count),
            *range(lead),
            *range(lead + count, value.ndim),
        ]
        value = value.transpose(order)
    return value


def _gradient(
    g: GraphBuilder,
    index: int,
    tensors: list[Tensor],
    inputs: Sequence[Subscripts],
    output: Subscripts,
    dy: Tensor,
) -> Tensor:
    own = inputs[index]
    others = [each for i, each in enumerate(inputs) if i != index]
    factors = [conjugated(g, each) for i, each in enumerate(tensors) if i != index]
    # A label of this input alone was summed: its gradient is the same for every element.
    found = set(output.labels).union(*(each.labels for each in others))
    unique = list(dict.fromkeys(own.labels))
    kept = [label for label in unique if label in found]
    summed = [label for label in unique if label not in found]
    has_ellipsis = output.has_ellipsis or any(each.has_ellipsis for each in others)
    target = (_ELLIPSIS if has_ellipsis else "") + "".join(kept)
    left = ",".join(each.text for each in (output, *others))
    result = g.Einsum([dy, *factors], equation=f"{left}->{target}")
    shape = g.Shape(tensors[index])
    if own.has_ellipsis or has_ellipsis:
        result = _covered_like(g, result, shape, own, len(kept))
    sizes = {label: _size(g, shape, own, place) for place, label in enumerate(own.labels)}
    if summed:
        result = _repeated(g, result, [sizes[label] for label in summed])
    source = (_ELLIPSIS if own.has_ellipsis else "") + "".join([*kept, *summed])
    if source == own.text:
        return result
    return g.Einsum([result], equation=f"{source}->{own.text}")


def _size(g: GraphBuilder, shape: Tensor, own: Subscripts, place: int) -> Tensor:
    """The size of a label, as a vector of one element."""
    at = place if place < len(own.before) else place - len(own.labels)
    bounds = (np.array([i], np.int32) for i in (at, at + 1, 1))
    return g.StridedSlice(shape, *bounds, end_mask=1 if at == -1 else 0)


def _repeated(g: GraphBuilder, x: Tensor, sizes: Sequence[Tensor]) -> Tensor:
    """`x` broadcast along new last dimensions of these sizes."""
    last = np.array(-1, np.int32)
    old = g.Shape(x)
    for _ in sizes:
        x = g.ExpandDims(x, last)
    return g.BroadcastTo(x, g.ConcatV2([old, *sizes], np.array(0, np.int32)))


def _covered_like(
    g: GraphBuilder, result: Tensor, shape: Tensor, own: Subscripts, labels: int
) -> Tensor:
    """The dimensions under the ellipsis as in the input: summed if they were broadcast."""
    zero, one = np.array([0], np.int32), np.array([1], np.int32)
    found = g.Shape(result)
    lead = g.StridedSlice(
        found, zero, np.array([-labels], np.int32), one, end_mask=0 if labels else 1
    )
    sizes = g.StridedSlice(found, g.Shape(lead), zero, one, end_mask=1)
    begin = np.array([len(own.before)], np.int32)
    if own.has_ellipsis:
        end = np.array([-len(own.after)], np.int32)
        wanted = g.StridedSlice(shape, begin, end, one, end_mask=0 if own.after else 1)
    else:
        wanted = g.const(np.zeros(0, np.int32), int32)
    axes, _ = g.BroadcastGradientArgs(wanted, lead)
    return g.Reshape(g.Sum(result, axes), g.ConcatV2([wanted, sizes], np.array(0, np.int32)))
