"""`Variable`: a mutable tensor that lives on its task between runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.default_stack import sessions
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.operators import Operators
from sparkflow.graph.scopes import graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.tensor_shape import TensorShape
from sparkflow.ops import state
from sparkflow_runtime.dtypes import DType, as_dtype
from sparkflow_runtime.protos import variable_pb2


class Variable(Operators):
    """State of a fixed dtype (and usually shape), kept by the task that its device names.

    A variable has no value before its `initializer` has run. In expressions it stands for its
    current value.

    Args:
        initial_value: A tensor, a Python value, or a function without arguments that makes one. The
            function's nodes are placed with the variable.
        trainable: Whether optimizers change it; true when None.
        collections: Where it is listed; the global variables when None.
        validate_shape: Keep the shape of `initial_value`; otherwise any shape may be assigned.
        caching_device: Where a copy of the value is kept for readers, None for no copy.
        name: Made unique; `Variable` when None.
        variable_def: A message to restore the variable from, instead of an initial value.
        dtype: The type `initial_value` is converted to.
        expected_shape: A shape that `initial_value` must have.
        import_scope: Prefix of the names in `variable_def`.
        constraint: A function applied to the value after each optimizer step.
        use_resource: Accepted for TensorFlow's sake; variables are reference variables.
        shape: The static shape where `initial_value` does not tell it.

    Raises:
        ValueError: There is no initial value, or its shape is unknown while it is validated.
    """

    # Not slots: users subclass variables and hang attributes on them.
    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        collections: Sequence[str] | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: variable_pb2.VariableDef | None = None,
        dtype: Any = None,
        expected_shape: Any = None,
        import_scope: str | None = None,
        constraint: Callable[[Tensor], Tensor] | None = None,
        use_resource: bool | None = None,
        shape: Any = None,
    ) -> None:
        self._constraint = constraint
        if variable_def is not None:
            if initial_value is not None:
                raise ValueError("variable_def and initial_value are mutually exclusive.")
            self._restore(variable_def, import_scope)
            return
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        self._trainable = True if trainable is None else trainable
        graph = graph_of(() if callable(initial_value) else (initial_value,))
        self._graph = graph
        kind = None if dtype is None else as_dtype(dtype).base
        with graph.as_default(), graph.init_scope():
            self._build(initial_value, kind, validate_shape, caching_device, name, shape)
            if expected_shape is not None:
                self.shape.assert_is_compatible_with(expected_shape)
        names = list(collections or [GraphKeys.GLOBAL_VARIABLES])
        if self._trainable and GraphKeys.TRAINABLE_VARIABLES not in names:
            names.append(GraphKeys.TRAINABLE_VARIABLES)
        graph.add_to_collections(names, self)

    def _build(
        self,
        initial_value: Any,
        dtype: DType | None,
        validate_shape: bool,
        caching_device: Any,
        name: str | None,
        shape: Any,
    ) -> None:
        graph = self._graph
        with graph.name_scope(name or "Variable") as scope:
            if callable(initial_value):
                with (
                    graph.colocation_group(scope[:-1]),
                    graph.name_scope("Initializer"),
                    graph.device(None),
                ):
                    self._initial_value = graph.convert(initial_value(), dtype, "initial_value")
            else:
                self._initial_value = graph.convert(initial_value, dtype, "initial_value")
            static = self._initial_value.shape if shape is None else TensorShape(shape)
            if validate_shape and not static.is_fully_defined():
                raise ValueError(
                    f"initial_value must have a shape specified: {self._initial_value!r}; pass "
                    "validate_shape=False for a variable whose shape may change"
                )
            attrs = {
                "shape": static.as_tuple() if validate_shape else None,
                "dtype": self._initial_value.dtype.base,
            }
            with graph.colocation_group(scope[:-1]):
                self._variable = graph.create_op("VariableV2", (), attrs, scope).outputs[0]
            self._initializer = state.assign(
                self._variable, self._initial_value, validate_shape=validate_shape
            ).op
            if caching_device is not None:
                with graph.device(caching_device):
                    self._snapshot: Tensor = graph.apply("Identity", (self._variable,), {}, "read")
            else:
                with graph.colocate_with(self._variable.op):
                    self._snapshot = graph.apply("Identity", (self._variable,), {}, "read")
            self._caching_device = caching_device

    # ------------------------------------------------------------------ what it is

    @property
    def name(self) -> str:
        """`operation:0`."""
        return self._variable.name

    @property
    def op(self) -> Operation:
        """The operation that holds the state."""
        return self._variable.op

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self._graph

    @property
    def device(self) -> str:
        """The device asked for, "" when free."""
        return self._variable.device

    @property
    def dtype(self) -> DType:
        """The reference type of its elements, e.g. `float32_ref`."""
        return self._variable.dtype

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        return self._variable.shape

    @property
    def _shared_name(self) -> str:
        return self.op.name

    def get_shape(self) -> TensorShape:
        """The same as `shape`."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Adds knowledge about the static shape."""
        self._variable.set_shape(shape)
        self._snapshot.set_shape(shape)

    @property
    def initializer(self) -> Operation:
        """The operation that gives it its initial value."""
        return self._initializer

    @property
    def initial_value(self) -> Tensor:
        """The tensor it starts from."""
        return self._initial_value

    @property
    def trainable(self) -> bool:
        """Whether optimizers change it."""
        return self._trainable

    @property
    def constraint(self) -> Callable[[Tensor], Tensor] | None:
        """The function applied after each optimizer step."""
        return self._constraint

    # ------------------------------------------------------------------ reading

    def value(self) -> Tensor:
        """The value at the beginning of the step, read once per step by the node `read`."""
        return self._snapshot

    def read_value(self) -> Tensor:
        """A new node that reads, ordered by the control dependencies it is made under."""
        result: Tensor = self._graph.apply("Identity", (self._variable,), {})
        return result

    def initialized_value(self) -> Tensor:
        """The initial value after initialisation, for the initial values of other variables."""
        graph = self._graph
        with graph.init_scope(), graph.control_dependencies([self._initializer]):
            return self.read_value()

    def eval(self, session: Any = None) -> Any:
        """Its current value, read by `session` or the default session."""
        return self._snapshot.eval(session=session)

    def load(self, value: Any, session: Any = None) -> None:
        """Sets its value from an array, through `session` or the default session.

        Raises:
            ValueError: There is no session.
        """
        session = session or sessions.top()
        if session is None:
            raise ValueError(
                "Either session argument should be provided or default session should be "
                "established"
            )
        session.run(self._initializer, {self._initializer.inputs[1]: value})

    def _to_tensor(self, as_ref: bool = False) -> Tensor:
        return self._variable if as_ref else self._snapshot

    def _ref(self) -> Tensor:
        return self._variable

    def _as_graph_element(self) -> Tensor:
        return self._variable

    # ------------------------------------------------------------------ changing

    def assign(
        self,
        value: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """A node that sets the value; the variable after it, or the operation alone."""
        changed = state.assign(self, value, use_locking=use_locking, name=name)
        return changed if read_value else changed.op

    def assign_add(
        self,
        delta: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """A node that adds; the variable after it, or the operation alone."""
        changed = state.assign_add(self, delta, use_locking=use_locking, name=name)
        return changed if read_value else changed.op

    def assign_sub(
        self,
        delta: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """A node that subtracts; the variable after it, or the operation alone."""
        changed = state.assign_sub(self, delta, use_locking=use_locking, name=name)
        return changed if read_value else changed.op

    def scatter_add(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """A node that adds the rows of `IndexedSlices`."""
        return state.scatter_add(self, sparse_delta.indices, sparse_delta.values, use_locking, name)

    def scatter_sub(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """A node that subtracts the rows of `IndexedSlices`."""
        return state.scatter_sub(self, sparse_delta.indices, sparse_delta.values, use_locking, name)

    def scatter_update(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """A node that replaces the rows of `IndexedSlices`."""
        return state.scatter_update(
            self, sparse_delta.indices, sparse_delta.values, use_locking, name
        )

    def count_up_to(self, limit: int) -> Tensor:
        """A node that adds 1 and gives the value before; OutOfRangeError at `limit`."""
        return state.count_up_to(self, limit)

    # ------------------------------------------------------------------ as a message

    def to_proto(self, export_scope: str | None = None) -> variable_pb2.VariableDef:
        """The names of its nodes as a message."""
        return variable_pb2.VariableDef(
            variable_name=self.name,
            initial_value_name=self._initial_value.name,
            initializer_name=self._initializer.name,
            snapshot_name=self._snapshot.name,
            trainable=self._trainable,
        )

    @staticmethod
    def from_proto(
        variable_def: variable_pb2.VariableDef, import_scope: str | None = None
    ) -> Variable:
        """The variable whose nodes are already in the default graph."""
        return Variable(variable_def=variable_def, import_scope=import_scope)

    def _restore(self, message: variable_pb2.VariableDef, import_scope: str | None) -> None:
        graph = self._graph = graph_of(())
        prefix = f"{import_scope}/" if import_scope else ""
        self._variable = graph.get_tensor_by_name(prefix + message.variable_name)
        self._initializer = graph.get_operation_by_name(prefix + message.initializer_name)
        self._snapshot = graph.get_tensor_by_name(prefix + message.snapshot_name)
        self._initial_value = (
            graph.get_tensor_by_name(prefix + message.initial_value_name)
            if message.initial_value_name
            else self._initializer.inputs[1]
        )
        self._trainable = message.trainable
        self._caching_device = None

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __iter__(self) -> NoReturn:
        raise TypeError("'Variable' object is not iterable.")

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        raise NotImplementedError(
            f"Cannot convert a variable ({self.name}) to a numpy array. Run it in a session."
        )

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"

    __str__ = __repr__
