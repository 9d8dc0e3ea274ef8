"""A `GraphBuilder` that computes immediately, to run an op and its gradient without a graph.

What lives here: `EagerBuilder`, its tensors and operations, and reverse-mode differentiation over
them. What does not: rows of tests (`op_cases`) and numerical gradients (`numerical`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InternalError, InvalidArgumentError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.kernels.narrow import bind_kernel
from sparkflow_runtime.ops.op import Inference, Op
from sparkflow_runtime.ops.signature import Arg
from sparkflow_runtime.ops.value import wholly
from sparkflow_runtime.resources.container import Resources
from sparkflow_runtime.resources.variable import Variable
from sparkflow_runtime.shapes import Shape
from sparkflow_runtime.testing.aliases import check_aliases
from support.step import FakeStep


@dataclass(frozen=True, slots=True, eq=False)
class EagerTensor:
    """A tensor whose value is known.

    Attributes:
        value: The array; a `Variable` for a reference.
        dtype: Its element type.
        static_shape: The shape known to inference.
        op: The operation that made it; None for inputs and constants.
        index: Which output of `op` it is.
        is_const: Whether the graph would know the value before running.
    """

    value: Any
    dtype: DType
    static_shape: Shape
    op: EagerOperation | None = None
    index: int = 0
    is_const: bool = False

    @property
    def name(self) -> str:
        """`node:index`."""
        return f"{self.op.name}:{self.index}" if self.op is not None else "input:0"

    def read(self) -> Any:
        """Returns the array; for a reference, reads it from the variable."""
        return self.value.read() if isinstance(self.value, Variable) else self.value


@dataclass(slots=True, eq=False)
class EagerOperation:
    """An operation that has run; gradients and kernels use it as a node."""

    name: str
    op: str
    inputs: tuple[EagerTensor, ...]
    attrs: Mapping[str, Any]
    outputs: tuple[EagerTensor, ...] = ()

    def attr(self, name: str) -> Any:
        """The canonical value of an attribute."""
        return self.attrs[name]


@dataclass(frozen=True, slots=True)
class EagerSlices:
    """A sparse gradient: rows `values[i]` belong at `indices[i]` of the first dimension."""

    values: EagerTensor
    indices: EagerTensor
    dense_shape: EagerTensor | None

    def to_dense(self, shape: Sequence[int]) -> Any:
        """The sum of the rows as an array of `shape`, on the host."""
        values, indices = (np.asarray(_to_host(t.value)) for t in (self.values, self.indices))
        dense = np.zeros(tuple(shape), values.dtype)
        np.add.at(dense, indices, values)
        return dense


class EagerBuilder:
    """Runs every op as it is added, with all the checks that a graph would make.

    Attributes are completed, the kernel is looked up for the device, shapes are inferred, the
    kernel is bound and called without numpy warnings, and its outputs are compared with what was
    inferred.

        >>> import sparkflow_runtime.ops.linalg.linalg
        >>> g = EagerBuilder()
        >>> a = g.tensor(np.ones((2, 3)))
        >>> g.MatMul(a, a, transpose_b=True).value
        array([[3., 3.],
               [3., 3.]])

    Args:
        xp: The array module of the device: numpy or cupy.
        device_type: `CPU` or `GPU`.

    Attributes:
        resources, session: The resources of kernels; kept as long as the builder.
        step: The step passed to ops with `takes_step`; a test may set one that it cancels.
    """

    def __init__(self, xp: ModuleType = np, device_type: str = "CPU") -> None:
        self.resources = Resources()
        self.session = Resources()
        self.step: StepContext = FakeStep()
        self.context = KernelContext(
            xp=xp,
            device_type=device_type,
            device_name=f"/job:localhost/replica:0/task:0/device:{device_type}:0",
            resources=self.resources,
            session=self.session,
        )
        self._operations = 0

    def tensor(
        self, value: Any, dtype: DType | None = None, static_shape: Sequence[int | None] | None = ()
    ) -> EagerTensor:
        """An input whose value the graph would not know, like a placeholder.

        Args:
            value: Anything that numpy converts to an array, or an array of the device.
            dtype: Its type; by default that of the array, or float32 and int32 for Python numbers.
            static_shape: The shape that inference may use; `()` for the array's own, None for
                unknown.
        """
        array, found = self._array(value, dtype)
        known = array.shape if static_shape == () else static_shape
        return EagerTensor(array, found, shapes.as_shape(known))

    def const(self, value: Any, dtype: DType | None = None) -> EagerTensor:
        """A constant, whose value shape inference and gradients may use."""
        array, found = self._array(value, dtype)
        return EagerTensor(array, found, array.shape, is_const=True)

    def variable(self, value: Any, dtype: DType | None = None) -> EagerTensor:
        """A reference to a new variable with a copy of `value`."""
        array, found = self._array(value, dtype)
        variable = Variable("variable", found, array.shape)
        variable.array = array.copy()
        return EagerTensor(variable, found.ref, array.shape)

    def shape(self, tensor: EagerTensor) -> Shape:
        """Returns the tensor's static shape."""
        return tensor.static_shape

    def value(self, tensor: EagerTensor) -> Any:
        """Returns the value of a constant as a host array, else None."""
        return _to_host(tensor.value) if tensor.is_const else None

    def indexed_slices(
        self, values: EagerTensor, indices: EagerTensor, dense_shape: EagerTensor | None
    ) -> EagerSlices:
        """A sparse gradient."""
        return EagerSlices(values, indices, dense_shape)

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        """Returns a function that runs one op of this type, see `ops.builder.GraphBuilder`."""
        if not registry.contains(op_type):
            raise AttributeError(f"no op type {op_type!r} is registered")
        op = registry.lookup(op_type)

        def run(*inputs: Any, name: str | None = None, **attrs: Any) -> Any:
            operation = self.run(op, inputs, attrs, name)
            if not op.signature.outputs:
                return operation
            if len(op.signature.outputs) == 1 and not op.signature.outputs[0].is_list:
                return operation.outputs[0]
            return operation.outputs

        return run

    def run(
        self, op: Op, inputs: Sequence[Any], attrs: Mapping[str, Any], name: str | None = None
    ) -> EagerOperation:
        """Runs one op and returns the operation with its outputs.

        Raises:
            OpError: The error that building or running the node in a graph would raise.
            InternalError: The kernel's outputs contradict the op's inference or signature.
        """
        arguments = self._arguments(op, inputs, attrs)
        given = [
            [t.dtype for t in argument] if isinstance(argument, list) else argument.dtype
            for argument in arguments
        ]
        complete = op.signature.complete_attrs(given, attrs)
        registry.require_kernel(op, self.context.device_type, complete)
        flat = tuple(
            tensor
            for argument in arguments
            for tensor in (argument if isinstance(argument, list) else [argument])
        )
        inferred = op.infer(
            Inference(
                [tensor.static_shape for tensor in flat],
                [tensor.dtype for tensor in flat],
                complete,
                lambda index: wholly(self.value(flat[index])),
            )
        )
        self._operations += 1
        operation = EagerOperation(
            name or f"{op.op_type}_{self._operations}", op.op_type, flat, complete
        )
        values = self._compute(op, operation)
        expected = op.signature.output_dtypes(complete)
        if not len(values) == len(expected) == len(inferred):
            raise InternalError(
                message=f"{op.op_type} has {len(expected)} outputs, inferred {len(inferred)} "
                f"shapes and computed {len(values)} values"
            )
        operation.outputs = tuple(
            EagerTensor(_checked(op, i, value, dtype, shape), dtype, shape, operation, i)
            for i, (value, dtype, shape) in enumerate(zip(values, expected, inferred, strict=True))
        )
        return operation

    def gradients(
        self,
        ys: Sequence[EagerTensor],
        xs: Sequence[EagerTensor],
        grad_ys: Sequence[EagerTensor | None],
    ) -> list[EagerTensor | EagerSlices | None]:
        """The gradients of `sum(y * grad_y)` with respect to each of `xs`, built from the ops'.

        Args:
            ys: Tensors computed by this builder.
            xs: Tensors they were computed from.
            grad_ys: The gradient with respect to each of `ys`; None for none.

        Raises:
            InvalidArgumentError: An op on the way has no gradient.
        """
        found: dict[int, Any] = {}
        for y, dy in zip(ys, grad_ys, strict=True):
            self._accumulate(found, y, dy)
        wanted = {id(x) for x in xs}
        for operation in _in_reverse(ys, wanted):
            grads = [found.get(id(output)) for output in operation.outputs]
            if all(grad is None for grad in grads):
                continue
            op = registry.lookup(operation.op)
            if op.gradient is None:
                raise InvalidArgumentError(message=f"{operation.op} has no gradient")
            dense = [self._dense(g, t) for g, t in zip(grads, operation.outputs, strict=True)]
            results = op.gradient(self, operation, *dense)
            if len(results) != len(operation.inputs):
                raise InternalError(
                    message=f"The gradient of {operation.op} returned {len(results)} tensors "
                    f"for {len(operation.inputs)} inputs"
                )
            for tensor, grad in zip(operation.inputs, results, strict=True):
                self._accumulate(found, tensor, grad)
        return [found.get(id(x)) for x in xs]

    def _accumulate(self, found: dict[int, Any], tensor: EagerTensor, grad: Any) -> None:
        if grad is None:
            return
        earlier = found.get(id(tensor))
        if earlier is not None:
            grad = self.AddN([self._dense(earlier, tensor), self._dense(grad, tensor)])
        found[id(tensor)] = grad

    def _dense(self, grad: Any, tensor: EagerTensor) -> EagerTensor | None:
        if isinstance(grad, EagerSlices):
            return self.tensor(grad.to_dense(tensor.read().shape))
        return grad  # type: ignore[no-any-return]  # a tensor or None

    def _array(self, value: Any, dtype: DType | None) -> tuple[Any, DType]:
        if not hasattr(value, "dtype"):
            value = np.asarray(value, None if dtype is None else dtype.as_numpy_dtype)
            if dtype is None and value.dtype in (np.float64, np.int64):
                value = value.astype(np.float32 if value.dtype == np.float64 else np.int32)
        dtype = dtypes.as_dtype(value.dtype) if dtype is None else dtype.base
        array = value if value.dtype == dtype.as_numpy_dtype else value.astype(dtype.numpy)
        if dtype is dtypes.string or self.context.xp is np:
            return np.asarray(array), dtype
        return self.context.xp.asarray(array), dtype

    def _arguments(
        self, op: Op, inputs: Sequence[Any], attrs: Mapping[str, Any]
    ) -> list[EagerTensor | list[EagerTensor]]:
        known = {key: value for key, value in attrs.items() if isinstance(value, DType)}
        for arg, value in zip(op.signature.inputs, inputs, strict=False):
            for each in value if isinstance(value, list | tuple) else [value]:
                if isinstance(each, EagerTensor) and arg.type_attr is not None:
                    known.setdefault(arg.type_attr, each.dtype.base)
        result: list[EagerTensor | list[EagerTensor]] = []
        for arg, value in zip(op.signature.inputs, inputs, strict=False):
            dtype = _implied(op, arg, known, value)
            if arg.is_list and isinstance(value, list | tuple):
                result.append([self._as_tensor(each, dtype) for each in value])
            else:
                result.append(self._as_tensor(value, dtype))
        surplus = inputs[len(op.signature.inputs) :]  # rejected when attributes are completed
        return result + [self._as_tensor(value, None) for value in surplus]

    def _as_tensor(self, value: Any, dtype: DType | None) -> EagerTensor:
        return value if isinstance(value, EagerTensor) else self.const(value, dtype)

    def _compute(self, op: Op, operation: EagerOperation) -> tuple[Any, ...]:
        expected = op.signature.input_dtypes(operation.attrs)
        arrays = [
            tensor.value if dtype.is_ref or dtype is dtypes.resource else tensor.read()
            for tensor, dtype in zip(operation.inputs, expected, strict=True)
        ]
        kernel = bind_kernel(op, operation, self.context)
        with np.errstate(all="ignore"):
            result = kernel(self.step, *arrays) if op.takes_step else kernel(*arrays)
        check_aliases(op, operation, arrays, result)
        if not op.signature.outputs:
            return ()
        return tuple(result) if isinstance(result, tuple | list) else (result,)


def _implied(op: Op, arg: Arg, known: Mapping[str, DType], value: Any) -> DType | None:
    """The dtype that a number or list given for `arg` should have; None for its own."""
    if arg.type_attr is None:
        return arg.dtype
    if arg.type_attr in known:
        return known[arg.type_attr]
    default = op.attrs[arg.type_attr].default
    return default if isinstance(default, DType) and not hasattr(value, "dtype") else None


def _to_host(array: Any) -> Any:
    return array.get() if hasattr(array, "get") else array


def _checked(op: Op, index: int, value: Any, dtype: DType, shape: Shape) -> Any:
    """Returns the output after comparing it with what the op declared."""
    where = f"Output {index} of {op.op_type}"
    if dtype.is_ref:
        # References to strings are also the handles of TensorFlow's first queues and accumulators.
        if not isinstance(value, Variable) and dtype.base is not dtypes.string:
            raise InternalError(message=f"{where} is a {type(value).__name__}, not a Variable")
        return value
    if dtype not in dtypes.ALL:
        return value
    if not hasattr(value, "dtype"):
        raise InternalError(message=f"{where} is a {type(value).__name__}, not an array")
    if value.dtype != dtype.as_numpy_dtype:
        raise InternalError(message=f"{where} has dtype {value.dtype}, promised {dtype.name}")
    if not shapes.is_compatible(shape, value.shape):
        raise InternalError(
            message=f"{where} has shape {value.shape}, inferred {shapes.text(shape)}"
        )
    return value


def _in_reverse(ys: Sequence[EagerTensor], stops: set[int]) -> list[EagerOperation]:
    """Yields the operations that `ys` depend on, users first; stops at tensors in `stops`."""
    order: list[EagerOperation] = []
    seen: set[int] = set()

    def visit(tensor: EagerTensor) -> None:
        operation = tensor.op
        if operation is None or id(tensor) in stops or id(operation) in seen:
            return
        seen.add(id(operation))
        for source in operation.inputs:
            visit(source)
        order.append(operation)

    for y in ys:
        visit(y)
    return order[::-1]
