"""`Variable`: a mutable tensor that lives on its task between runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from sparkflow._api import export
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.default_stack import sessions
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.operators import Operators
from sparkflow.graph.scopes import get_default_graph, graph_of
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.state import state
from sparkflow.variables import save_slice
from sparkflow.variables.creators import (
    VariableAggregation,
    VariableSynchronization,
    checked_modes,
    creators,
)
from sparkflow.variables.initial_value import without_uninitialised
from sparkflow.variables.resource_switch import resource_variables_enabled
from sparkflow_runtime.dtypes import DType, as_dtype
from sparkflow_runtime.protos import variable_pb2


class _Creating(type):
    """Lets the creators of `variable_creator_scope` make the variables of user code."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Makes a variable, or has it made."""
        if cls is not Variable:
            return super().__call__(*args, **kwargs)
        stack = creators(get_default_graph())
        if not stack or kwargs.get("variable_def") is not None:
            return type.__call__(_kind(args, kwargs), *args, **kwargs)
        given = dict(zip(_ARGUMENTS, args, strict=False))
        defaults = dict.fromkeys(_ARGUMENTS, None)
        defaults |= {
            "validate_shape": True,
            "synchronization": VariableSynchronization.AUTO,
            "aggregation": VariableAggregation.NONE,
        }

        def make(**each: Any) -> Any:
            return type.__call__(_kind((), each), **each)

        creator: Callable[..., Any] = make
        for outer in reversed(stack):
            creator = partial(outer, creator)
        return creator(**{**defaults, **given, **kwargs})


def _kind(args: Sequence[Any], kwargs: Mapping[str, Any]) -> type[Variable]:
    """Whether a reference variable is made, or one behind a handle."""
    given = dict(zip(_ARGUMENTS, args, strict=False)) | dict(kwargs)
    message = given.get("variable_def")
    asked = given.get("use_resource") if message is None else message.is_resource
    if asked is None:
        asked = resource_variables_enabled()
    if not asked or get_default_graph().is_eager:
        return Variable
    return _behind_handle[0]


def behind_handle(kind: type[Variable]) -> None:
    """Says which class is made where a variable behind a handle is asked for."""
    _behind_handle[:] = [kind]


_behind_handle: list[type[Variable]] = []


_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
_ARGUMENTS = (
    "initial_value",
    "trainable",
    "collections",
    "validate_shape",
    "caching_device",
    "name",
    "variable_def",
    "dtype",
    "expected_shape",
    "import_scope",
    "constraint",
    "use_resource",
    "synchronization",
    "aggregation",
    "shape",
)


@export("Variable")
class Variable(Operators, metaclass=_Creating):
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
        use_resource: Make a `ResourceVariable`, which is read through a handle; what
            `enable_resource_variables` says when None. Eager variables are of one kind.
        synchronization: Accepted; with ON_READ it is not trainable unless `trainable` says so.
        aggregation: Accepted.
        shape: The static shape where `initial_value` does not tell it.

    Raises:
        ValueError: There is no initial value, or its shape is unknown while it is validated.
    """

    _value_scope = ""  # below its own, of an initial value that is no function

    SaveSliceInfo = save_slice.SaveSliceInfo
    _saved_by: Any = None  # the saveable that saves it with others, see `embedding.saving`
    _is_of_replica = False  # one of the replica's own, as its slots and averages are then
    _rows_come_and_go = False  # whether other steps give it rows while an update runs

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
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
        shape: Any = None,
    ) -> None:
        if constraint is not None and not callable(constraint):
            raise ValueError("The `constraint` argument must be a callable.")
        self._constraint = constraint
        self._save_slice_info: save_slice.SaveSliceInfo | None = None
        self._synchronization, self._aggregation = checked_modes(synchronization, aggregation, name)
        if variable_def is not None:
            if initial_value is not None:
                raise ValueError("variable_def and initial_value are mutually exclusive.")
            self._restore(variable_def, import_scope)
            return
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        if collections is not None and not isinstance(collections, list | tuple | set):
            raise ValueError(
                "collections argument to Variable constructor must be a list, tuple, or set. Got "
                f"{collections} of type {type(collections)}"
            )
        on_read = synchronization is VariableSynchronization.ON_READ
        self._trainable = not on_read if trainable is None else trainable
        graph = graph_of(() if callable(initial_value) else (initial_value,)).root
        self._graph = graph
        kind = None if dtype is None else as_dtype(dtype).base
        with graph.as_default(), graph.init_scope():
            self._build(initial_value, kind, validate_shape, caching_device, name, shape)
            if expected_shape is not None:
                self.shape.assert_is_compatible_with(expected_shape)
        names = list([GraphKeys.GLOBAL_VARIABLES] if collections is None else collections)
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
                with graph.name_scope(f"{scope}{self._value_scope}"):
                    self._initial_value = graph.convert(initial_value, dtype, "initial_value")
            static = self._initial_value.shape if shape is None else TensorShape(shape)
            if validate_shape and not static.is_fully_defined():
                raise ValueError(
                    f"initial_value must have a shape specified: {self._initial_value!r}; pass "
                    "validate_shape=False for a variable whose shape may change"
                )
            self._make_nodes(static, validate_shape, caching_device, scope)
            if graph.is_eager:
                self._eager_name = f"{scope[:-1]}:0"
                graph.owners[id(self._variable)] = self  # type: ignore[attr-defined]  # only eager contexts have owners

    def _make_nodes(
        self, static: TensorShape, validate_shape: bool, caching_device: Any, scope: str
    ) -> None:
        """Adds the nodes that hold, initialise and read it, in its own name scope."""
        graph = self._graph
        attrs = {
            "shape": static.as_tuple() if validate_shape else None,
            "dtype": self._initial_value.dtype.base,
        }
        with graph.colocation_group(scope[:-1]):
            self._variable = graph.add_node("VariableV2", (), attrs, scope).outputs[0]
        self._initializer = state.assign(
            self._variable,
            without_uninitialised(self._variable.op.name, self._initial_value),
            validate_shape=validate_shape,
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
        return self._eager_name if self._graph.is_eager else self._variable.name

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
        """The operation that sets it to its initial value."""
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

    @property
    def synchronization(self) -> VariableSynchronization:
        """As it was given."""
        return self._synchronization

    @property
    def aggregation(self) -> VariableAggregation:
        """As it was given."""
        return self._aggregation

    def _set_save_slice_info(self, save_slice_info: save_slice.SaveSliceInfo | None) -> None:
        self._save_slice_info = save_slice_info

    def _get_save_slice_info(self) -> save_slice.SaveSliceInfo | None:
        return self._save_slice_info

    # ------------------------------------------------------------------ reading

    def value(self) -> Tensor:
        """The value at the beginning of the step, read once per step by the node `read`."""
        return self._to_tensor()

    def numpy(self) -> Any:
        """Its value as a numpy array.

        Raises:
            NotImplementedError: A variable of a graph has a value only in a session.
        """
        if not self._graph.is_eager:
            raise NotImplementedError("numpy() is only available when eager execution is enabled.")
        return self._variable.numpy()  # of eager execution

    def read_value(self) -> Tensor:
        """A new node that reads, ordered by the control dependencies it is made under."""
        result: Tensor = self._graph.apply("Identity", (self._variable,), {}, "read")
        return result

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Whether it has a value when the node runs: a scalar bool."""
        return state.is_variable_initialized(self, name)

    def initialized_value(self) -> Tensor:
        """Its value, or its initial value while it has none: for what other variables start from.

        Use it for the initial value of another variable; `tf.Variable(v * 2)` does so by itself.
        """
        graph = self._graph
        if graph.is_eager:
            return self.read_value()
        with graph.init_scope():
            result: Tensor = graph.apply(
                "InitializedValue", (self._variable, self._initializer.inputs[1]), {}
            )
        return result

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
        if as_ref:
            return self._variable
        return self.read_value() if self._graph.is_eager else self._snapshot

    def _ref(self) -> Tensor:
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
        """A node that adds the rows of `IndexedSlices`; repeated ones add up."""
        return self._scatter(state.scatter_add, sparse_delta, use_locking, name)

    def scatter_sub(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """A node that subtracts the rows of `IndexedSlices`."""
        return self._scatter(state.scatter_sub, sparse_delta, use_locking, name)

    def scatter_mul(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """A node that multiplies rows by the rows of `IndexedSlices`."""
        return self._scatter(state.scatter_mul, sparse_delta, use_locking, name)

    def scatter_div(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """A node that divides rows by the rows of `IndexedSlices`."""
        return self._scatter(state.scatter_div, sparse_delta, use_locking, name)

    def scatter_max(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """A node that sets rows to the elementwise maximum with the rows of `IndexedSlices`."""
        return self._scatter(state.scatter_max, sparse_delta, use_locking, name)

    def scatter_min(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """A node that sets rows to the elementwise minimum with the rows of `IndexedSlices`."""
        return self._scatter(state.scatter_min, sparse_delta, use_locking, name)

    def scatter_update(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """A node that replaces rows by the rows of `IndexedSlices`."""
        return self._scatter(state.scatter_update, sparse_delta, use_locking, name)

    def batch_scatter_update(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """A node that replaces rows, in each item of the leading dimensions those listed for it."""
        return self._scatter(state.batch_scatter_update, sparse_delta, use_locking, name)

    def _scatter(
        self, function: Callable[..., Any], delta: Any, use_locking: bool, name: str | None
    ) -> Any:
        if not isinstance(delta, IndexedSlices):
            raise TypeError(f"sparse_delta is not IndexedSlices: {delta}")
        return function(self, delta.indices, delta.values, use_locking=use_locking, name=name)

    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """A node that adds where index vectors point."""
        return state.scatter_nd_add(self, indices, updates, use_locking=True, name=name)

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """A node that subtracts where index vectors point."""
        return state.scatter_nd_sub(self, indices, updates, use_locking=True, name=name)

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """A node that sets what index vectors point at."""
        return state.scatter_nd_update(self, indices, updates, use_locking=True, name=name)

    def __getitem__(self, key: Any) -> Any:
        """The part that `key` selects, with a method `assign(value, name=None)` that sets it.

        What booleans select is a copy, which has none.
        """
        part = super().__getitem__(key)
        if part.op.type == "StridedSlice":
            part.assign = partial(self._assign_part, part.op)
        return part

    def _assign_part(self, selecting: Operation, value: Any, name: str | None = None) -> Any:
        masks = {key: selecting.attr(key) for key in _MASKS}
        inputs = (self, *selecting.inputs[1:], value)
        name = name or f"{selecting.name.rpartition('/')[2]}_assign"
        return self._graph.apply("StridedSliceAssign", inputs, masks, name)

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """The rows at `indices`, read without the others."""
        result: Tensor = self._graph.apply("GatherV2", (self._variable, indices, 0), {}, name)
        return result

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        """The slices at the index vectors."""
        result: Tensor = self._graph.apply("GatherNd", (self._variable, indices), {}, name)
        return result

    def count_up_to(self, limit: int) -> Tensor:
        """A node that adds 1 and returns the previous value; OutOfRangeError at `limit`."""
        return state.count_up_to(self, limit)

    # ------------------------------------------------------------------ as a message

    def to_proto(self, export_scope: str | None = None) -> variable_pb2.VariableDef | None:
        """The names of its nodes as a message; None where it is outside `export_scope`."""
        prefix = f"{export_scope.rstrip('/')}/" if export_scope else ""
        if not self.name.startswith(prefix):
            return None
        message = variable_pb2.VariableDef(
            variable_name=self.name.removeprefix(prefix),
            initial_value_name=self._initial_value.name.removeprefix(prefix),
            initializer_name=self._initializer.name.removeprefix(prefix),
            snapshot_name=self._snapshot.name.removeprefix(prefix),
            trainable=self._trainable,
            synchronization=variable_pb2.VariableSynchronization.Value(
                f"VARIABLE_SYNCHRONIZATION_{self._synchronization.name}"
            ),
            aggregation=variable_pb2.VariableAggregation.Value(
                f"VARIABLE_AGGREGATION_{self._aggregation.name}"
            ),
        )
        if self._save_slice_info is not None:
            part = self._save_slice_info.to_proto(export_scope)
            if part is not None:
                message.save_slice_info_def.CopyFrom(part)
        return message

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
        self._synchronization = VariableSynchronization(message.synchronization)
        self._aggregation = VariableAggregation(message.aggregation)
        self._caching_device = None
        if message.HasField("save_slice_info_def"):
            self._save_slice_info = save_slice.SaveSliceInfo(
                save_slice_info_def=message.save_slice_info_def, import_scope=import_scope
            )

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __iter__(self) -> NoReturn:
        raise TypeError("'Variable' object is not iterable.")

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        from sparkflow.graph.numpy_calls import describe

        raise NotImplementedError(describe("variable", self.name))

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"

    __str__ = __repr__
