"""Python's operators on symbolic values, shared by tensors and variables.

Names of the nodes made are TensorFlow's: `a + b` makes an `AddV2` node called `add`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sparkflow_runtime.dtypes import float32, float64, string
from sparkflow_runtime.ops import registry

if TYPE_CHECKING:
    from sparkflow.graph.graph import Graph
    from sparkflow.graph.operation import Operation
    from sparkflow.graph.reference import Reference
    from sparkflow.graph.tensor import Tensor


class Symbolic:
    """Something that stands for a tensor of a graph: a Tensor, a Variable, IndexedSlices."""

    __slots__ = ()
    # numpy must leave `array + tensor` to us.
    __array_priority__ = 100

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        raise NotImplementedError(type(self).__name__)

    def _to_tensor(self, as_ref: bool = False) -> Tensor:
        """The tensor it stands for; with `as_ref` the reference or handle of a variable."""
        raise NotImplementedError(type(self).__name__)

    def _as_graph_element(self) -> Tensor:
        """The tensor that a session fetches or feeds for it."""
        return self._to_tensor(as_ref=True)

    def _as_operation(self) -> Operation:
        """The operation that is waited for where one waits for it."""
        return self._to_tensor(as_ref=True).op


class Held(Symbolic):
    """A variable behind a handle: ops that change a reference have a form of their own for it."""

    __slots__ = ()

    def updated(
        self,
        graph: Graph,
        op_type: str,
        values: Sequence[Any],
        attrs: Mapping[str, Any],
        name: str | None,
    ) -> Any:
        """Adds the form of an op for handles.

        Args:
            graph: Where to.
            op_type: The op type for references.
            values: Its inputs.
            attrs: Its attributes.
            name: Of the node.

        Returns:
            What the op gives; instead of the reference, the variable after the update.
        """
        raise NotImplementedError(type(self).__name__)

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """The rows at `indices`, read without the others."""
        raise NotImplementedError(type(self).__name__)


class Operators(Symbolic):
    """Overloads of Python's operators."""

    __slots__ = ()

    def ref(self) -> Reference:
        """What stands for this very object in sets and dictionaries; `deref()` gives it back."""
        from sparkflow.graph.reference import Reference

        return Reference(self)

    def experimental_ref(self) -> Reference:
        """The same as `ref`."""
        return self.ref()

    def _binary(self, op_type: str, name: str, other: Any, reflected: bool = False) -> Tensor:
        tensor = self._to_tensor()
        if not isinstance(other, Symbolic):
            # The tensor's dtype decides, on either side of the operator.
            return _with_value(tensor, op_type, name, other, reflected)
        values = (other, tensor) if reflected else (tensor, other)
        return _added(tensor.op.graph, op_type, values, {}, name)

    def __add__(self, other: Any) -> Tensor:
        return self._binary(self._addition(), "add", other)

    def __radd__(self, other: Any) -> Tensor:
        return self._binary(self._addition(), "add", other, reflected=True)

    def _addition(self) -> str:
        # AddV2 is commutative, which the joining of texts is not.
        return "Add" if self._to_tensor().dtype.base is string else "AddV2"

    def __sub__(self, other: Any) -> Tensor:
        return self._binary("Sub", "sub", other)

    def __rsub__(self, other: Any) -> Tensor:
        return self._binary("Sub", "sub", other, reflected=True)

    def __mul__(self, other: Any) -> Tensor:
        if hasattr(other, "dense_shape") and hasattr(other, "__rmul__"):
            return NotImplemented  # a sparse tensor stays sparse
        return self._binary("Mul", "mul", other)

    def __rmul__(self, other: Any) -> Tensor:
        return self._binary("Mul", "mul", other, reflected=True)

    def __truediv__(self, other: Any) -> Tensor:
        return self._divide(other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return self._divide(other, reflected=True)

    def _divide(self, other: Any, reflected: bool = False) -> Tensor:
        tensor = self._to_tensor()
        if not tensor.dtype.is_integer:
            return self._binary("RealDiv", "truediv", other, reflected)
        return true_divide(tensor, other, "truediv", reflected)

    def __floordiv__(self, other: Any) -> Tensor:
        return self._binary("FloorDiv", "floordiv", other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return self._binary("FloorDiv", "floordiv", other, reflected=True)

    def __mod__(self, other: Any) -> Tensor:
        return self._binary("FloorMod", "mod", other)

    def __rmod__(self, other: Any) -> Tensor:
        return self._binary("FloorMod", "mod", other, reflected=True)

    def __pow__(self, other: Any) -> Tensor:
        return self._binary("Pow", "pow", other)

    def __rpow__(self, other: Any) -> Tensor:
        return self._binary("Pow", "pow", other, reflected=True)

    def __matmul__(self, other: Any) -> Tensor:
        return self._multiply_matrices(other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return self._multiply_matrices(other, reflected=True)

    def _multiply_matrices(self, other: Any, reflected: bool = False) -> Tensor:
        shape = self._to_tensor()._shape
        op_type = "MatMul" if shape is None or len(shape) <= 2 else "BatchMatMulV2"
        return self._binary(op_type, "matmul", other, reflected)

    def __lt__(self, other: Any) -> Tensor:
        return self._binary("Less", "Less", other)

    def __le__(self, other: Any) -> Tensor:
        return self._binary("LessEqual", "LessEqual", other)

    def __gt__(self, other: Any) -> Tensor:
        return self._binary("Greater", "Greater", other)

    def __ge__(self, other: Any) -> Tensor:
        return self._binary("GreaterEqual", "GreaterEqual", other)

    def __and__(self, other: Any) -> Tensor:
        return self._binary(self._of_bits("LogicalAnd", "BitwiseAnd"), "and", other)

    def __rand__(self, other: Any) -> Tensor:
        return self._binary(self._of_bits("LogicalAnd", "BitwiseAnd"), "and", other, reflected=True)

    def __or__(self, other: Any) -> Tensor:
        return self._binary(self._of_bits("LogicalOr", "BitwiseOr"), "or", other)

    def __ror__(self, other: Any) -> Tensor:
        return self._binary(self._of_bits("LogicalOr", "BitwiseOr"), "or", other, reflected=True)

    def __xor__(self, other: Any) -> Tensor:
        return self._exclusive_or(other)

    def __rxor__(self, other: Any) -> Tensor:
        return self._exclusive_or(other)

    def _of_bits(self, logical: str, bitwise: str) -> str:
        return bitwise if self._to_tensor().dtype.is_integer else logical

    def _exclusive_or(self, other: Any) -> Tensor:
        tensor = self._to_tensor()
        if tensor.dtype.is_integer:
            return self._binary("BitwiseXor", "xor", other)
        graph = tensor.op.graph
        with graph.name_scope("xor") as scope:
            either = graph.apply("LogicalOr", (tensor, other), {})
            both = graph.apply("LogicalAnd", (tensor, other), {})
            return _added(
                graph, "LogicalAnd", (either, graph.apply("LogicalNot", (both,), {})), {}, scope
            )

    def __invert__(self) -> Tensor:
        return self._unary(self._of_bits("LogicalNot", "Invert"))

    def __neg__(self) -> Tensor:
        return self._unary("Neg")

    def __abs__(self) -> Tensor:
        tensor = self._to_tensor()
        if tensor.dtype.is_complex:
            attrs = {"Tout": tensor.dtype.real_dtype.base}
            return _added(tensor.op.graph, "ComplexAbs", (tensor,), attrs)
        return self._unary("Abs")

    def _unary(self, op_type: str) -> Tensor:
        tensor = self._to_tensor()
        return _added(tensor.op.graph, op_type, (tensor,), {})

    def __getitem__(self, key: Any) -> Any:
        """The part that `key` selects: integers, slices, `...` and `tf.newaxis`."""
        from sparkflow.graph.slicing import strided_slice

        return strided_slice(self._to_tensor(), key)


def _with_value(tensor: Tensor, op_type: str, name: str, value: Any, reflected: bool) -> Tensor:
    if not reflected:
        return _added(tensor.op.graph, op_type, (tensor, value), {}, name)
    of_one_type = "T" not in registry.lookup(op_type).signature.attrs
    attrs = {} if of_one_type else {"T": tensor.dtype.base}
    return _added(tensor.op.graph, op_type, (value, tensor), attrs, name)


def true_divide(tensor: Tensor, other: Any, name: str, reflected: bool = False) -> Tensor:
    """Python 3's `/` of an integer tensor: both sides become floating point first."""
    graph = tensor.op.graph
    with graph.name_scope(name) as scope:
        right = graph.convert(other, tensor.dtype.base, "x" if reflected else "y")
        pair = [right, tensor] if reflected else [tensor, right]
        small = tensor.dtype.base.size <= 2
        wide = float32 if small else float64
        cast = [graph.apply("Cast", (each,), {"DstT": wide}) for each in pair]
        return _added(graph, "RealDiv", cast, {}, scope)


def _added(
    graph: Graph,
    op_type: str,
    values: Sequence[Any],
    attrs: Mapping[str, Any],
    name: str | None = None,
) -> Tensor:
    """The output of a new node with one."""
    tensor: Tensor = graph.apply(op_type, values, attrs, name)
    return tensor
