"""`ResourceVariable`: a variable behind a handle; each use reads its current value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.operators import Held, Operators
from sparkflow.graph.scopes import graph_of
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.variables.initial_value import without_uninitialised
from sparkflow.variables.variable import Variable, behind_handle
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.state.resource_variable import handle_form
from sparkflow_runtime.protos import variable_pb2


class ResourceVariable(Variable, Held):
    """A `Variable` of the kind that `use_resource=True` asks for.

    Its operation makes a handle; `ReadVariableOp` reads it, where and when the reading stands in
    the graph, and `AssignVariableOp` and the `Resource...` ops change it. The arguments are those
    of `Variable`.
    """

    _value_scope = "Initializer/"

    def _make_nodes(
        self,
        static: TensorShape,
        validate_shape: bool,
        caching_device: Any,
        scope: str,
    ) -> None:
        graph = self._graph
        dtype = self._initial_value.dtype.base
        attrs = {
            "shape": static.as_tuple() if validate_shape else None,
            "dtype": dtype,
            "shared_name": scope[:-1],
        }
        with graph.colocation_group(scope[:-1]):
            self._variable = graph.add_node("VarHandleOp", (), attrs, scope).outputs[0]
        self._dtype, self._shape = dtype, TensorShape(attrs["shape"])
        with graph.device(self._variable.device), graph.colocate_with(self._variable.op):
            self._is_initialized: Tensor = graph.apply(
                "VarIsInitializedOp", (self._variable,), {}, "IsInitialized/VarIsInitializedOp"
            )
        value = without_uninitialised(self._variable.op.name, self._initial_value)
        with graph.colocate_with(self._variable.op):
            self._initializer = graph.apply(
                "AssignVariableOp",
                (self._variable, value),
                {"dtype": dtype, "validate_shape": validate_shape},
                "Assign",
            )
        with graph.device(caching_device) if caching_device else graph.name_scope("Read"):
            self._snapshot = self._read("ReadVariableOp")
        self._caching_device = caching_device

    # ------------------------------------------------------------------ what it is

    @property
    def handle(self) -> Tensor:
        """The handle: a scalar of dtype `resource`."""
        return self._variable

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        return self._shape

    @property
    def create(self) -> Operation:
        """The operation that sets it to its initial value, same as `initializer`."""
        return self._initializer

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Whether it has a value: a bool."""
        result: Tensor = self._graph.apply("VarIsInitializedOp", (self._variable,), {}, name)
        return result

    def set_shape(self, shape: Any) -> None:
        """Adds knowledge about the static shape."""
        self._shape = self._shape.merge_with(shape)
        self._snapshot.set_shape(self._shape)

    # ------------------------------------------------------------------ reading

    def _read(self, name: str | None = None) -> Tensor:
        graph = graph_of((self._variable,))  # or the function that is made there
        with graph.colocate_with(self._variable.op, ignore_existing=True):
            read: Tensor = graph.apply(
                "ReadVariableOp", (self._variable,), {"dtype": self._dtype}, name
            )
        if not read.shape.is_fully_defined():
            read.set_shape(self._shape)
        return read

    def value(self) -> Tensor:
        """A node that reads the value; the copy on the caching device where there is one."""
        return self._snapshot if self._caching_device is not None else self._read()

    def read_value(self) -> Tensor:
        """A new node that reads, ordered by the control dependencies it is made under."""
        graph = self._graph
        with graph.name_scope("Read"):
            read = self._read()
        result: Tensor = graph.apply("Identity", (read,), {})
        return result

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """The rows at `indices`, read without the others."""
        result: Tensor = self._graph.apply(
            "ResourceGather", (self._variable, indices), {"dtype": self._dtype}, name
        )
        return result

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        """The slices at the index vectors."""
        result: Tensor = self._graph.apply(
            "ResourceGatherNd", (self._variable, indices), {"dtype": self._dtype}, name
        )
        return result

    def initialized_value(self) -> Tensor:
        """Its value, or its initial value while it has none."""
        from sparkflow.ops.control.cond import cond  # which needs variables

        with self._graph.init_scope():
            result: Tensor = cond(
                self.is_initialized(), self.read_value, lambda: self._initial_value
            )
        return result

    def _to_tensor(self, as_ref: bool = False) -> Tensor:
        return self._variable if as_ref else self.value()

    def _as_graph_element(self) -> Tensor:
        return self._snapshot

    def updated(
        self,
        graph: Graph,
        op_type: str,
        values: Sequence[Any],
        attrs: Mapping[str, Any],
        name: str | None,
    ) -> Any:
        """See `Held`."""
        form = handle_form(op_type)
        if form is None:
            raise TypeError(
                f"{op_type} changes reference variables only, and {self.name} is behind a handle "
                "(use_resource=True)"
            )
        op = registry.lookup(form)
        references = registry.lookup(op_type).signature.inputs
        inputs = [
            value._to_tensor(as_ref=True) if arg.is_ref and isinstance(value, Held) else value
            for arg, value in zip(references, values, strict=True)
        ]
        kept = {key: value for key, value in attrs.items() if key in op.signature.attrs}
        for key in ("dtype", "T"):
            if key in op.signature.attrs:
                kept.setdefault(key, self.dtype)
        if "validate_shape" in op.signature.attrs:
            inputs[1] = graph.convert(inputs[1], self.dtype, "value")
            if not self.shape.is_compatible_with(inputs[1].shape):
                raise ValueError(
                    f"Cannot assign value to variable '{self.name}': Shape mismatch. The variable "
                    f"shape {self.shape}, and the assigned value shape {inputs[1].shape} are "
                    "incompatible."
                )
            kept["validate_shape"] = self.shape.is_fully_defined()
        with graph.colocate_with(self.op, ignore_existing=True):
            made = graph.apply(form, inputs, kept, name)
        if not isinstance(made, Operation):
            return made
        return UnreadVariable(self, made, not registry.lookup(op_type).trains)

    # ------------------------------------------------------------------ as a message

    def to_proto(self, export_scope: str | None = None) -> variable_pb2.VariableDef | None:
        """The names of its nodes as a message; None where it is outside `export_scope`."""
        message = super().to_proto(export_scope)
        if message is not None:
            message.is_resource = True
        return message

    def _restore(self, message: variable_pb2.VariableDef, import_scope: str | None) -> None:
        super()._restore(message, import_scope)
        attrs = self._variable.op._attrs
        self._dtype, self._shape = attrs["dtype"], TensorShape(attrs["shape"])


class UnreadVariable(Operators, Held):
    """A variable after an update: reading it waits for the update.

    Args:
        variable: The variable.
        updated: The update.
        is_read: Whether its value is read, not only the update run.
    """

    def __init__(self, variable: ResourceVariable, updated: Operation, is_read: bool) -> None:
        self._variable = variable
        self._updated = updated
        # Now, since a session does not add to its graph, which other threads may run and build.
        self._element = None if updated.graph.is_eager or not is_read else self.value()

    @property
    def op(self) -> Operation:
        """The update."""
        return self._updated

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self._updated.graph

    @property
    def name(self) -> str:
        """The variable's name."""
        return self._variable.name

    @property
    def handle(self) -> Tensor:
        """The variable's handle."""
        return self._variable.handle

    @property
    def dtype(self) -> DType:
        """The type of its elements."""
        return self._variable.dtype

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        return self._variable.shape

    def get_shape(self) -> TensorShape:
        """The same as `shape`."""
        return self.shape

    def value(self) -> Tensor:
        """A node that reads the value after the update."""
        with self.graph.control_dependencies([self._updated]):
            return self._variable._read()

    read_value = value

    def eval(self, session: Any = None) -> Any:
        """Runs the update in `session` or the default session and returns the new value."""
        return self._as_graph_element().eval(session=session)

    def _to_tensor(self, as_ref: bool = False) -> Tensor:
        return self.handle if as_ref else self.value()

    def _as_graph_element(self) -> Tensor:
        return self.value() if self._element is None else self._element

    def _as_operation(self) -> Operation:
        return self._updated

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """The rows at `indices` after the update."""
        with self.graph.control_dependencies([self._updated]):
            return self._variable.sparse_read(indices, name)

    def updated(
        self,
        graph: Graph,
        op_type: str,
        values: Sequence[Any],
        attrs: Mapping[str, Any],
        name: str | None,
    ) -> Any:
        """See `Held`; the next update waits for this one."""
        with graph.control_dependencies([self._updated]):
            return self._variable.updated(graph, op_type, values, attrs, name)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Updates of the variable, made after this one."""
        if not name.startswith(("assign", "scatter", "gather_nd")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        change = getattr(self._variable, name)

        def after(*args: Any, **kwargs: Any) -> Any:
            with self.graph.control_dependencies([self._updated]):
                return change(*args, **kwargs)

        return after

    def __repr__(self) -> str:
        shown = f"shape={self.shape} dtype={self.dtype.name}"
        return f"<tf.Variable '{self.name}' {shown} after {self._updated.name}>"


behind_handle(ResourceVariable)
