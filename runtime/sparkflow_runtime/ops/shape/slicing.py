"""Contiguous and strided parts of tensors, and reversal.

The rules of a strided slice are in `strided`, padding is in `padding`, taking by index in `gather`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow_runtime.codegen.cpu import parts
from sparkflow_runtime.codegen.cpu.parts import Along
from sparkflow_runtime.dtypes import INDEX, PLAIN, DType, int16, int32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.inference import value_of
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels.filling import copying, remembering
from sparkflow_runtime.ops.machine_call import CallSite, MachineCall
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.shape.strided import Masks, StridedSpec, parts_along, static_shape
from sparkflow_runtime.ops.signature import int_attr, type_attr
from sparkflow_runtime.ops.static import (
    STRINGS_ON_HOST,
    bracketed,
    checked_dims,
    constant_vector,
    known_sizes,
    shape_tensor,
    vector,
)
from sparkflow_runtime.ops.value import moving
from sparkflow_runtime.shapes import Dim, Shape


@register
class Slice(Op):
    """The slice of a tensor that starts at `begin` and has the sizes `size`; -1: to the end."""

    capturable = True
    host_inputs = frozenset({"begin", "size"})
    inputs = "input: T, begin: Index, size: Index"
    outputs = "output: T"
    aliases = frozenset({"input"})
    is_view = True
    attrs = {"T": type_attr(), "Index": type_attr(INDEX)}
    kernels = STRINGS_ON_HOST
    value_rule = moving(0)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The sizes, as far as `begin` and `size` are known."""
        begin, size = known_sizes(node, 1, "begin"), known_sizes(node, 2, "size")
        ranks = [len(each) for each in (node.shapes[0], begin, size) if each is not None]
        if not ranks:
            return [None]
        unknown = (None,) * ranks[0]
        shape = unknown if node.shapes[0] is None else node.shapes[0]
        return [
            _static_slice_sizes(
                shape, unknown if begin is None else begin, unknown if size is None else size
            )
        ]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Array]:
        """A view; constant bounds are read in the first step only.

        The kernel raises InvalidArgumentError if the slice is out of bounds.
        """
        index_of = remembering(_slice_index)
        return lambda value, begin, size: value[index_of(value.shape, begin, size)]

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Copies the part."""
        return copying(self.bind(node, context), inputs=3)

    def machine_call(self, node: NodeView, site: CallSite) -> MachineCall | None:
        """A copy of the part."""
        part = site.output_shapes[0]
        dims = [
            Along(size, taken, number)
            for number, (size, taken) in enumerate(zip(site.shapes[0], part, strict=True))
        ]
        return _call_of_part(dims, site.dtypes[0], site.dtypes[1], (0, 1))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """dx: dy surrounded by zeros."""
        x, begin, _ = op.inputs
        whole = shape_tensor(g, x, begin.dtype)
        part = shape_tensor(g, op.outputs[0], begin.dtype)
        if g.value(begin) is None:  # loops have machine code for this
            end = g.Add(begin, part)
            return g.StridedSliceGrad(whole, begin, end, g.OnesLike(part), dy), None, None
        after = g.Sub(g.Sub(whole, part), begin)
        return g.Pad(dy, g.Pack([begin, after], axis=1)), None, None


def _slice_index(shape: Sequence[int], begin: Array, size: Array) -> tuple[Any, ...]:
    starts = vector(begin, "begin")
    sizes = _slice_sizes(shape, starts, vector(size, "size"))
    index = tuple(slice(start, start + length) for start, length in zip(starts, sizes, strict=True))
    return (*index, ...)


def _check_slice_rank(rank: int, length: int) -> None:
    if length != rank:
        raise InvalidArgumentError(
            message=f"Expected begin and size arguments to be 1-D tensors of size {rank}, "
            f"but got {length}"
        )


def _slice_sizes(
    shape: Sequence[int], begin: Sequence[int], size: Sequence[int]
) -> tuple[int, ...]:
    """The sizes of the part, -1 resolved."""
    _check_slice_rank(len(shape), len(begin))
    _check_slice_rank(len(shape), len(size))
    result: list[int] = []
    for axis, (dim, start, length) in enumerate(zip(shape, begin, size, strict=True)):
        if not 0 <= start <= dim:
            raise InvalidArgumentError(
                message=f"Expected begin[{axis}] in [0, {dim}], but got {start}"
            )
        left = dim - start
        if not -1 <= length <= left:
            raise InvalidArgumentError(
                message=f"Expected size[{axis}] in [0, {left}], but got {length}"
            )
        result.append(left if length == -1 else length)
    return tuple(result)


def _static_slice_sizes(
    shape: Sequence[Dim], begin: Sequence[Dim], size: Sequence[Dim]
) -> tuple[Dim, ...]:
    """As `_slice_sizes`, None for unknown sizes.

    A slice that is too long is detected at run time, as in TensorFlow.
    """
    _check_slice_rank(len(shape), len(begin))
    _check_slice_rank(len(shape), len(size))
    result: list[Dim] = []
    for axis, (dim, start, length) in enumerate(zip(shape, begin, size, strict=True)):
        if start is not None and (start < 0 or (dim is not None and start > dim)):
            bound = "?" if dim is None else dim
            raise InvalidArgumentError(
                message=f"Expected begin[{axis}] in [0, {bound}], but got {start}"
            )
        if length is not None and length < -1:
            raise InvalidArgumentError(
                message=f"Expected size[{axis}] to be at least -1, but got {length}"
            )
        left = None if dim is None or start is None else dim - start
        result.append(left if length == -1 else length)
    return tuple(result)


_MASKS = {
    name: int_attr(0)
    for name in (
        "begin_mask",
        "end_mask",
        "ellipsis_mask",
        "new_axis_mask",
        "shrink_axis_mask",
    )
}


@register
class StridedSlice(Op):
    """`input[begin:end:strides]` with Python's semantics, the special forms as bit masks.

    Bit i of a mask refers to element i of begin, end and strides: `begin_mask` and `end_mask` to a
    missing bound, `ellipsis_mask` to `...`, `new_axis_mask` to `newaxis`, `shrink_axis_mask` to a
    plain number.
    """

    capturable = True
    host_inputs = frozenset({"begin", "end", "strides"})
    inputs = "input: T, begin: Index, end: Index, strides: Index"
    outputs = "output: T"
    aliases = frozenset({"input"})
    is_view = True
    attrs = {"T": type_attr(), "Index": type_attr(INDEX | {int16}), **_MASKS}
    kernels = STRINGS_ON_HOST
    value_rule = moving(0)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The sizes of the part, as far as the bounds are known."""
        masks = Masks.of(node.attrs)
        bounds = [
            known_sizes(node, i, name) for i, name in ((1, "begin"), (2, "end"), (3, "strides"))
        ]
        lengths = {len(each) for each in bounds if each is not None}
        if len(lengths) > 1:
            raise InvalidArgumentError(
                message="Expected begin, end, and strides to be 1D equal size tensors, but got "
                f"shapes {', '.join(bracketed(node.shapes[i]) for i in (1, 2, 3))} instead"
            )
        if node.shapes[0] is None or not lengths:
            return [None]
        unknown = (None,) * lengths.pop()
        begin, end, strides = (unknown if each is None else each for each in bounds)
        return [static_shape(node.shapes[0], begin, end, strides, masks)]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Array]:
        """A view; constant bounds are read in the first step only.

        The kernel raises InvalidArgumentError for a plain number outside its dimension, a stride of
        0, or too many dimensions.
        """
        index_of = remembering(_strided_index(Masks.of(node.attrs)))
        return lambda value, begin, end, strides: value[index_of(value.shape, begin, end, strides)]

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Copies the part."""
        return copying(self.bind(node, context), inputs=4)

    def machine_call(self, node: NodeView, site: CallSite) -> MachineCall | None:
        """A copy of the part."""
        strides = site.constants[3]
        if strides is None:
            return None
        part = site.output_shapes[0]
        dims = parts_along(site.shapes[0], part, strides, Masks.of(node.attrs))
        return _call_of_part(dims, site.dtypes[0], site.dtypes[1], (0, 1))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """dx: dy in the slice, zero elsewhere."""
        x, begin, end, strides = op.inputs
        masks = {name: op.attr(name) for name in _MASKS}
        shape = shape_tensor(g, x, begin.dtype if begin.dtype in INDEX else int32)
        bounds = [
            each if each.dtype in INDEX else g.Cast(each, SrcT=each.dtype, DstT=int32)
            for each in (begin, end, strides)
        ]
        return g.StridedSliceGrad(shape, *bounds, dy, **masks), None, None, None


@register
class StridedSliceGrad(Op):
    """Zeros of shape `shape` with `dy` in the strided slice with these bounds."""

    capturable = True
    host_inputs = frozenset({"shape", "begin", "end", "strides"})
    inputs = "shape: Index, begin: Index, end: Index, strides: Index, dy: T"
    outputs = "output: T"
    attrs = {"T": type_attr(), "Index": type_attr(INDEX), **_MASKS}
    kernels = STRINGS_ON_HOST
    value_rule = moving(4)
    infer = value_of(0, "shape")

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Array]:
        """The padded gradient; see `bind_out`."""
        xp = context.xp
        fill = self.bind_out(node, context)

        def run(shape: Array, begin: Array, end: Array, strides: Array, dy: Array) -> Array:
            result = xp.empty(checked_dims(vector(shape, "shape"), "shape"), dy.dtype)
            fill(shape, begin, end, strides, dy, result)
            return result

        return run

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The gradient at its position, and zeros elsewhere.

        The kernel raises InvalidArgumentError if `dy` does not have the shape of the slice.
        """
        index_of = remembering(_strided_index(Masks.of(node.attrs)))

        def run(
            shape: Array, begin: Array, end: Array, strides: Array, dy: Array, out: Array
        ) -> None:
            index = index_of(out.shape, begin, end, strides)
            expected = out[index].shape
            if dy.shape != expected:
                raise InvalidArgumentError(
                    message=f"shape of dy was {bracketed(dy.shape)} "
                    f"instead of {bracketed(expected)}"
                )
            out.fill(0)
            out[index] = dy

        return run

    def machine_call(self, node: NodeView, site: CallSite) -> MachineCall | None:
        """A copy of the part into zeros."""
        strides = site.constants[3]
        if strides is None:
            return None
        part = site.shapes[4]
        dims = parts_along(site.output_shapes[0], part, strides, Masks.of(node.attrs))
        return _call_of_part(dims, site.dtypes[4], site.dtypes[1], (4, 1), puts=True)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The same slice of the gradient."""
        _, begin, end, strides, _ = op.inputs
        masks = {name: op.attr(name) for name in _MASKS}
        return None, None, None, None, g.StridedSlice(dy, begin, end, strides, **masks)


def _call_of_part(
    dims: Sequence[Along] | None,
    number: DType,
    index: DType,
    inputs: tuple[int, int],
    puts: bool = False,
) -> MachineCall | None:
    if dims is None or number not in PLAIN or index not in parts.INDICES:
        return None
    if len(dims) > parts.MOST_DIMENSIONS:
        return None
    kernel = parts.bind_part(dims, number.size, index, puts)
    adding = None
    if puts and number in parts.ADDED:
        adding = parts.bind_part(dims, number.size, index, adds=number)
    return MachineCall(kernel, inputs, can_fail=True, adding=adding)


def _strided_index(masks: Masks) -> Callable[..., tuple[Any, ...]]:
    def read(shape: Sequence[int], begin: Array, end: Array, strides: Array) -> tuple[Any, ...]:
        return StridedSpec.of(begin, end, strides, masks).index(shape)

    return read


@register
class ReverseV2(Op):
    """The tensor with its elements in reverse order along the dimensions in `axis`."""

    capturable = True
    host_inputs = frozenset({"axis"})
    inputs = "tensor: T, axis: Tidx"
    outputs = "output: T"
    aliases = frozenset({"tensor"})
    is_view = True
    attrs = {"Tidx": type_attr(INDEX, int32), "T": type_attr()}
    kernels = STRINGS_ON_HOST
    value_rule = moving(0)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The input's shape."""
        axes, shape = constant_vector(node, 1, "axis"), node.shapes[0]
        if axes is not None and shape is not None:
            _reversed_axes(axes, len(shape))
        return [shape]

    def compute(self, xp: Any, tensor: Array, axis: Array) -> Array:
        """A view.

        Raises:
            InvalidArgumentError: A dimension does not exist or is named twice.
        """
        axes = _reversed_axes(vector(axis, "axis"), tensor.ndim)
        backwards = slice(None, None, -1)
        index = tuple(backwards if i in axes else slice(None) for i in range(tensor.ndim))
        return tensor[(*index, ...)]

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Copies the elements."""
        return copying(self.bind(node, context), inputs=2)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The reversed gradient."""
        return g.ReverseV2(dy, op.inputs[1]), None


def _reversed_axes(axes: Sequence[int], rank: int) -> set[int]:
    found: set[int] = set()
    for axis in axes:
        if not -rank <= axis < rank:
            raise InvalidArgumentError(
                message=f"'axis'[{axis}] is out of valid range [{-rank}, {rank - 1}]"
            )
        if axis % rank in found:
            raise InvalidArgumentError(message=f"axis {axis % rank} specified more than once.")
        found.add(axis % rank)
    return found
