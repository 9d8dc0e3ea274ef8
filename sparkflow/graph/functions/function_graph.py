"""`FunctionGraph`: the body of a function under construction, e.g. a branch of `tf.cond`.

Its nodes may use tensors of the graphs around it: they become further arguments ("captures"). Names
and collections are those of the graph around it, so that names stay unique and what is made inside
is found by everybody. Variables are made outside, in the root graph.

The body of a gradient may also use tensors of the function it is the gradient of: it reads them
from that function's tape (`sparkflow_runtime.ops.control.tape`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from sparkflow.graph.default_stack import default_graphs
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ir import function, function_def
from sparkflow_runtime.ir.graph import Graph as Body
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.protos import function_pb2
from sparkflow_runtime.shapes import Shape

LARGEST_COPIED_CONSTANT_BYTES = 1 << 12
"""Larger constants of the graph around are passed to the function instead of copied into it."""


@dataclass(slots=True)
class Forward:
    """The call that a gradient's body belongs to.

    Attributes:
        graph: The function that was called.
        operation: What called it.
        tape: The tensor of its tape.
        index: Which call is looked at; a tensor of the gradient's body.
        inputs: Per argument of the function the tensor it was called with, None where it differs
            from call to call.
    """

    graph: FunctionGraph
    operation: Operation
    tape: Tensor
    index: Tensor | None
    inputs: Sequence[Tensor | None]


class FunctionGraph(Graph):
    """The body of a function.

    Args:
        name: The function's name, unique in the root graph.
        outer: The graph it is made in.
        forward: For a gradient, what it is the gradient of.

    Attributes:
        inputs: The arguments: first the explicit ones, then one per capture.
        outputs: The results, set by whoever builds the function.
        captured: The tensors of `outer` that the last arguments stand for.
        handles: Of an imported function: what its arguments of dtype `resource` stand for.
        taped: The tensors of this function that gradients read from its tape.
        afterwards: Of a branch: what it leaves to be done after the call, see
            `ops.control_flow.afterwards`. None for other functions.
    """

    def __init__(self, name: str, outer: Graph, forward: Forward | None = None) -> None:
        super().__init__()
        if outer.root.finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")
        self.function_name = name
        self.outer = outer
        self.forward = forward
        self.names = outer.names
        self.seed = outer.seed
        self.handles: dict[Tensor, Tensor] = {}
        self._gradient_overrides = outer._gradient_overrides
        self._collections = outer._collections
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.captured: list[Tensor] = []
        self.taped: dict[Tensor, None] = {}
        self._waits_outside: dict[Operation, list[Operation]] = {}
        self.afterwards: list[Any] | None = None
        self._adopted: dict[Tensor, Tensor] = {}

    @property
    def root(self) -> Graph:
        """The outermost graph."""
        return self.outer.root

    @property
    def building_function(self) -> bool:
        """True: this is the body of a function."""
        return True

    @property
    def version(self) -> int:
        """A number that grows with every node, here or around."""
        return self.outer.version + super().version

    def is_inside(self, graph: Graph) -> bool:
        """Whether `graph` is around this one."""
        return self.outer is graph or self.outer.is_inside(graph)

    # ------------------------------------------------------------------ what is needed

    @property
    def waits_for(self) -> list[Operation]:
        """Operations of graphs around that the call must wait for."""
        waits = (each for op in self._needed() for each in self._waits_outside.get(op, ()))
        return list(dict.fromkeys(waits))

    def awaited_outside(self, op: Operation) -> Sequence[Operation]:
        """Operations of graphs around that an operation in here waits for."""
        return self._waits_outside.get(op, ())

    def _needed(self) -> set[Operation]:
        """The operations that a call runs: what the results and the tape need, nothing else."""
        left = [tensor.op for tensor in (*self.outputs, *self.taped)]
        needed: set[Operation] = set()
        while left:
            op = left.pop()
            if op not in needed and op.graph is self:
                needed.add(op)
                left.extend(tensor.op for tensor in op.inputs)
                left.extend(op.control_inputs)
        return needed

    def drop_captures(self) -> None:
        """Forgets captures that no result needs: who calls need not have them."""
        needed = self._needed()
        explicit = len(self.inputs) - len(self.captured)
        pairs = list(zip(self.inputs[explicit:], self.captured, strict=True))
        unused = {arg for arg, _ in pairs if arg.op not in needed}
        self.inputs = [arg for arg in self.inputs if arg not in unused]
        self.captured = [outer for arg, outer in pairs if arg not in unused]
        for index, tensor in enumerate(self.inputs):
            tensor.op._set_attr("index", index)
        self._adopted = {of: arg for of, arg in self._adopted.items() if arg not in unused}

    # ------------------------------------------------------------------ arguments

    def add_input(self, dtype: DType, shape: Shape, name: str = "arg") -> Tensor:
        """A new argument."""
        attrs = {"T": dtype, "index": len(self.inputs), "shape": shape}
        with self._control.entered(None):
            tensor = self._create_here("_Arg", (), attrs, name).outputs[0]
        self.inputs.append(tensor)
        return tensor

    def _create_here(self, *args: Any, **kwargs: Any) -> Operation:
        """Adds a node; for operations around the function that it waits for, the call waits."""
        op = super()._create_here(*args, **kwargs)
        outside = [each for each in op.control_inputs if each.graph is not self]
        if outside:
            self._waits_outside[op] = outside
            op.control_inputs = [each for each in op.control_inputs if each.graph is self]
        return op

    def adopted(self, tensor: Tensor) -> Tensor:
        """What stands here for a tensor of a graph around, or of the forward function.

        Raises:
            ValueError: The tensor belongs to a graph this one does not see.
        """
        found = self._adopted.get(tensor)
        if found is not None:
            return found
        forward = self.forward
        of_forward = forward is not None and tensor.op.graph is forward.graph
        if tensor.op.type == "Const" and (of_forward or _is_small_index(tensor)):
            attrs = {key: tensor.op.attr(key) for key in ("value", "dtype")}
            with self._control.entered(None):
                copied = self._create_here("Const", (), attrs, tensor.op.name.rpartition("/")[2])
            self._adopted[tensor] = copied.outputs[0]
            return copied.outputs[0]
        if self._reads_around(tensor):
            # A variable is read in here, so that reads that follow an update see it.
            with self._control.entered(None):
                variable = self.adopted(tensor.op.inputs[0])
                read = self._create_here("Identity", (variable,), {}, "read")
            self._adopted[tensor] = read.outputs[0]
            return read.outputs[0]
        if forward is not None and of_forward:
            self._adopted[tensor] = found = self._from_forward(forward, tensor)
            return found
        return self._capture(tensor)

    def _reads_around(self, tensor: Tensor) -> bool:
        """Whether it is the plain value of a variable, read in a graph around."""
        op = tensor.op
        return (
            registry.find(op.type).reads_variable
            and op.inputs[0].dtype.is_ref
            and not op.control_inputs
            and self.forward is None
            and self.is_inside(op.graph)
        )

    def _capture(self, tensor: Tensor) -> Tensor:
        graph = tensor.op.graph
        if graph is not self.outer and not self.outer.sees(graph):
            raise ValueError(
                f"{tensor!r} must be from the same graph as the function "
                f"{self.function_name!r}, or from one around it."
            )
        outer = tensor if graph is self.outer else self.outer.adopted(tensor)
        found = self._adopted.get(outer)
        if found is None:
            found = self.add_input(outer.dtype, outer._shape, "captured")
            self.captured.append(outer)
        self._adopted[tensor] = self._adopted[outer] = found
        return found

    def captures(self, tensor: Tensor) -> Tensor | None:
        """What stands here for a tensor of a graph around, None where nothing does."""
        return self._adopted.get(tensor)

    def stands_for(self, tensor: Tensor) -> Tensor | None:
        """The tensor of the graph around that an argument was captured from."""
        first = len(self.inputs) - len(self.captured)
        if tensor.op.type == "_Arg" and tensor.op.graph is self:
            place = tensor.op.attr("index") - first
            if 0 <= place < len(self.captured):
                captured: Tensor = self.captured[place]
                return captured
        return self.handles.get(tensor)

    def sees(self, graph: Graph) -> bool:
        """Whether nodes here may use tensors of `graph`."""
        if self.is_inside(graph):
            return True
        each: Graph = self
        while isinstance(each, FunctionGraph):
            if each.forward is not None and each.forward.graph is graph:
                return True
            each = each.outer
        return False

    def _from_forward(self, forward: Forward, tensor: Tensor) -> Tensor:
        """A tensor of the function this is the gradient of."""
        if tensor.op.type == "_Arg":
            given = forward.inputs[tensor.op.attr("index")]
            if given is not None:
                return given if given.op.graph is self else self._capture(given)
        forward.graph.taped[tensor] = None
        assert forward.index is not None
        attrs = {
            "function": forward.graph.function_name,
            "names": [tensor.name],
            "Tout": [tensor.dtype.base],
            "output_shapes": [tensor._shape],
        }
        with self._control.entered(None):
            tape = self.adopted(forward.tape)
            read = self._create_here("_TapeRead", (tape, forward.index), attrs, "tape")
        return read.outputs[0]

    def settle_references(self) -> None:
        """Takes variables that the body only reads as values."""
        changed = {
            tensor
            for op in self._needed()
            for tensor, dtype in zip(
                op.inputs,
                registry.lookup(op.type).signature.input_dtypes(op._attrs),
                strict=True,
            )
            if dtype.is_ref
        }
        for tensor in self.inputs:
            if tensor.dtype.is_ref and tensor not in changed:
                tensor.op._set_attr("T", tensor.dtype.base)
                tensor.dtype = tensor.dtype.base

    def users_of_captured(self, outer: Tensor) -> list[Operation]:
        """The operations here that take what stands for a captured tensor."""
        tensor = self._adopted[outer]
        return [op for op in self._operations.values() if tensor in op.inputs]

    def settle_handle(self, handle: Tensor, read: Tensor) -> None:
        """Takes a value instead of the handle of a variable, which the body only reads.

        Args:
            handle: A captured handle, of the graph around.
            read: The value, read there.
        """
        readers, tensor = self.users_of_captured(handle), self._adopted[handle]
        dtype = read.dtype
        self.captured[self.captured.index(handle)] = read
        for known in [each for each, found in self._adopted.items() if found is tensor]:
            del self._adopted[known]
        self._adopted[read] = tensor
        tensor.op._set_attr("T", dtype)
        tensor.op._set_attr("shape", read._shape)
        tensor.dtype, tensor._shape = dtype, read._shape
        for op in readers:
            op.type = "Identity"
            op._attrs = {"T": dtype}

    def arrange_captures(self, wanted: Sequence[Tensor]) -> None:
        """Makes the captures those of `wanted`, in that order, adding what is missing."""
        explicit = len(self.inputs) - len(self.captured)
        args = {outer: self._capture(outer) for outer in wanted}
        assert set(self.captured) <= set(wanted), "captures are only added"
        self.captured = list(wanted)
        self.inputs[explicit:] = [args[outer] for outer in wanted]
        for index, tensor in enumerate(self.inputs):
            tensor.op._set_attr("index", index)

    # ------------------------------------------------------------------ scopes

    def control_dependencies(
        self, control_inputs: Sequence[Any] | None
    ) -> AbstractContextManager[None]:
        """Makes nodes wait; operations around the function make its call wait."""
        if control_inputs is None:
            return self._control.entered(None)
        return self._control.entered([_operation_of(each) for each in control_inputs])

    def colocate_with(self, op: Any, ignore_existing: bool = False) -> AbstractContextManager[None]:
        """A function runs on one device: nothing in it can be put elsewhere."""
        return nullcontext()

    def colocation_group(self, name: str) -> AbstractContextManager[None]:
        """A function runs on one device."""
        return nullcontext()

    def device(self, device_name_or_function: Any) -> AbstractContextManager[None]:
        """A function runs on one device: that of its call."""
        return nullcontext()

    @contextmanager
    def init_scope(self) -> Any:
        """Leaves the function: nodes made inside are in the root graph."""
        root = self.root
        with default_graphs.entered(root), root.init_scope():
            yield

    # ------------------------------------------------------------------ the finished function

    @property
    def is_stateful(self) -> bool:
        """Whether running it may have effects."""
        return any(op.type != "_Arg" and registry.lookup(op.type).stateful for op in self._needed())

    def to_proto(self) -> function_pb2.FunctionDef:
        """The function as a message."""
        needed = self._needed() | {tensor.op for tensor in self.inputs}
        nodes = [
            Node(f"{op.name}", op.type, *_connected(op), "", op._attrs)
            for op in self._operations.values()
            if op in needed
        ]
        for index, tensor in enumerate(self.outputs):
            attrs = {"T": tensor.dtype, "index": index}
            nodes.append(Node(f"_result_{index}", "_Retval", (tensor.endpoint,), (), "", attrs))
        return function_def.export_function(function.Function(self.function_name, Body(nodes)))


def _connected(op: Operation) -> tuple[Any, Any]:
    return (
        tuple(tensor.endpoint for tensor in op.inputs),
        tuple(each.name for each in op.control_inputs),
    )


def _is_small_index(tensor: Tensor) -> bool:
    value = tensor.op.attr("value")
    # Gradients may be asked for real constants; shapes and indices are worth knowing inside.
    return value.dtype.kind in "iub" and value.nbytes <= LARGEST_COPIED_CONSTANT_BYTES


def _operation_of(item: Any) -> Operation:
    if isinstance(item, Operation):
        return item
    if isinstance(item, IndexedSlices):
        return item.values.op
    if isinstance(item, Symbolic):
        return item._as_operation()
    if hasattr(item, "op") and isinstance(item.op, Operation):
        return item.op
    raise TypeError(f"Can not convert a {type(item).__name__} into a Tensor or Operation.")
