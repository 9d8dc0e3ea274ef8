"""`Graph`: nodes, collections, scopes. `Graph.add_node` is the one way a node is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sparkflow._api import export
from sparkflow.graph.apply import apply, shape_error
from sparkflow.graph.constant_value import KnownValues, known_value, variable_shape
from sparkflow.graph.control import ControlDependencies
from sparkflow.graph.conversion import convert
from sparkflow.graph.default_stack import default_graphs
from sparkflow.graph.graph_interface import GraphInterface, per_thread
from sparkflow.graph.nodes.attributes import completed_attrs
from sparkflow.graph.nodes.naming import Names
from sparkflow.graph.nodes.source import user_line
from sparkflow.graph.operation import Operation
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.placement import Placement
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir import graph_def
from sparkflow_runtime.ir.node import SOURCE_ATTR
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Inference
from sparkflow_runtime.ops.signature import AttributeValueError
from sparkflow_runtime.protos import function_pb2, graph_pb2, node_def_pb2

OVERRIDE_ATTR = "_gradient_op_type"
"""The attribute by which TensorFlow asks for another gradient of one operation."""


@export("Graph")
class Graph(GraphInterface):
    """A dataflow graph under construction. Not safe to change from several threads at once.

    Attributes:
        names: The names taken, and the open name scope.
        seed: The graph-level random seed, None when not set.
        known_values: What was found of values, for a root graph and the functions inside.
    """

    def __init__(self) -> None:
        super().__init__()
        self.names = Names()
        self.seed: int | None = None
        self.known_values = KnownValues()
        self.finalized = False
        self._placement = Placement()
        self._control = ControlDependencies()
        self._container = ""
        self._gradient_overrides: Mapping[str, str] = {}
        self._operations: dict[str, Operation] = {}
        self._functions: dict[str, Any] = {}
        self._taken_functions: set[str] = set()  # with those that are being made
        self._imported_bodies: dict[Any, Any] = {}  # by name, and the handles that are passed
        self._function_names: dict[str, int] = {}
        self._unfeedable: set[Tensor] = set()
        self._unfetchable: set[Operation] = set()

    # ------------------------------------------------------------------ adding nodes

    def add_node(
        self,
        op_type: str,
        inputs: Sequence[Tensor | Sequence[Tensor]] = (),
        attrs: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Operation:
        """Adds one node.

        Args:
            op_type: A registered op type.
            inputs: One tensor per input argument; a list where the argument is one.
            attrs: Attributes that neither inputs nor defaults give.
            name: Made unique in the open name scope; the op type when None. A name that ends in
                `/` is taken as it is, without the slash.

        Returns:
            The operation, with its static shapes inferred.

        Raises:
            TypeError: dtypes or attributes do not fit the op.
            ValueError: Shapes do not fit; the text has them, the node's name and the caller's line.
            RuntimeError: The graph is finalized.
            NotFoundError: There is no such op type.
        """
        growing: Graph = default_graphs.receiving(self)
        return growing._create_here(op_type, inputs, attrs, name)

    def _growing(self) -> Graph:
        """The graph for which scopes of this one are opened.

        While a function inside this graph is built, that is its body. In TensorFlow 1 a branch or
        loop is a part of the graph, so scopes that are opened there hold there. (Nodes go to the
        body of a gradient as well, whose forward function is not around it.)
        """
        building: Graph | None = default_graphs.top()
        return self if building is None or not building.is_inside(self) else building

    def _create_here(
        self,
        op_type: str,
        inputs: Sequence[Tensor | Sequence[Tensor]] = (),
        attrs: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Operation:
        """Adds one node to this very graph, see `add_node`."""
        if self.finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")
        op = registry.lookup(op_type)
        flat: list[Tensor] = []
        given: list[Any] = []
        for value in inputs:
            if isinstance(value, Tensor):
                flat.append(value)
                given.append(value.dtype)
            else:
                flat.extend(value)
                given.append([tensor.dtype for tensor in value])
        for index, tensor in enumerate(flat):
            if tensor.op.graph is not self:
                flat[index] = self.adopted(tensor)
        source = user_line()
        try:
            complete, output_dtypes = completed_attrs(op, given, attrs)
        except InvalidArgumentError as error:
            path = self._full_name(name or op_type)
            kind = ValueError if isinstance(error, AttributeValueError) else TypeError
            raise kind(f"{error.message} (node {path!r} at {source})") from None
        try:
            found = op.infer(
                Inference(
                    [tensor._shape for tensor in flat],
                    [tensor.dtype for tensor in flat],
                    complete,
                    lambda index: known_value(flat[index]),
                    lambda index: variable_shape(flat[index]),
                )
            )
        except InvalidArgumentError as error:
            raise shape_error(
                error, op_type, self._full_name(name or op_type), flat, source
            ) from None
        complete.setdefault(SOURCE_ATTR, source)  # an imported node has one
        if op_type in self._gradient_overrides:
            complete[OVERRIDE_ATTR] = self._gradient_overrides[op_type]
        path = self._take_name(name or op_type)
        operation = Operation(self, path, op_type, tuple(flat), complete)
        if len(output_dtypes) == 1:
            operation.outputs = [Tensor(operation, 0, output_dtypes[0], found[0])]
        else:
            operation.outputs = [
                Tensor(operation, index, dtype, shape)
                for index, (dtype, shape) in enumerate(zip(output_dtypes, found, strict=True))
            ]
        if not self._control.is_free:
            self._control.apply(operation)
        if not self._placement.is_free:
            self._placement.apply(operation)
        if self._container and complete.get("container") == "":
            complete["container"] = self._container
        self._operations[path] = operation  # last: a session in another thread may send it at once
        return operation

    def apply(
        self,
        op_type: str,
        values: Sequence[Any],
        attrs: Mapping[str, Any],
        name: str | None = None,
    ) -> Any:
        """Adds one node from tensors, variables, numbers, arrays and lists.

        Returns:
            Its output; a list of them for a list output; a tuple for several outputs; the operation
            when it has none.

        Raises:
            TypeError, ValueError: As `add_node`, and for values that cannot be converted.
        """
        return apply(self, op_type, values, attrs, name)

    # ------------------------------------------------------------------ functions

    @property
    def is_eager(self) -> bool:
        """Whether nodes run when they are made."""
        return False

    @property
    def root(self) -> Graph:
        """The graph a session runs: this one, or the outermost around a function."""
        return self

    def is_inside(self, graph: Graph) -> bool:
        """Whether this is the body of a function made in `graph`, directly or not."""
        return False

    def sees(self, graph: Graph) -> bool:
        """Whether nodes made here may use tensors of `graph`, another one."""
        return False

    def adopted(self, tensor: Tensor) -> Tensor:
        """What stands here for a tensor of another graph.

        Raises:
            ValueError: Nothing can.
        """
        raise ValueError(f"{tensor} must be from the same graph as the new node.")

    def stands_for(self, tensor: Tensor) -> Tensor | None:
        """The tensor of the graph around that an argument was captured from."""
        return None

    def captures(self, tensor: Tensor) -> Tensor | None:
        """What stands here for a tensor of a graph around, None where nothing does."""
        return None

    def new_function_name(self, name: str) -> str:
        """A name that no function of the root graph has, imported ones included, or will have."""
        root = self.root
        while True:
            count = root._function_names[name] = root._function_names.get(name, -1) + 1
            found = f"{name}_{count}"
            if found not in root._taken_functions:
                root._taken_functions.add(found)
                return found

    def add_function(self, name: str, function: Any) -> None:
        """Makes a function known by name; one that is known stays.

        Args:
            name: The function's name.
            function: A `FunctionGraph`, or the message of one.
        """
        self.root._taken_functions.add(name)
        self.root._functions.setdefault(name, function)

    def has_other_function(self, function: function_pb2.FunctionDef) -> bool:
        """Whether a function's name is that of another one, which may not be finished yet."""
        name = function.signature.name
        there = self.root._functions.get(name)
        if there is None:
            return name in self.root._taken_functions
        if not isinstance(there, function_pb2.FunctionDef):
            there = there.to_proto()
        return _text(there) != _text(function)

    def functions_beside(self, graph_def: graph_pb2.GraphDef) -> list[function_pb2.FunctionDef]:
        """The functions of this graph that the nodes of a message would call, and it lacks."""
        library = graph_def.library.function
        called = [*_called(graph_def.node)]
        for each in library:
            called += _called(each.node_def)
        return [*self._called_from(called, {each.signature.name for each in library})]

    def find_function(self, name: str) -> Any:
        """The `FunctionGraph` or message of that name.

        Raises:
            KeyError: There is none.
        """
        return self.root._functions[name]

    def convert(
        self,
        value: Any,
        dtype: DType | None = None,
        name: str | None = None,
        preferred_dtype: DType | None = None,
    ) -> Tensor:
        """`value` as a tensor of this graph, see `sparkflow.convert_to_tensor`."""
        return convert(self, value, dtype, name, preferred_dtype)

    def _full_name(self, name: str) -> str:
        return name[:-1] if name.endswith("/") else self.names.unique(name, mark_as_used=False)

    def _take_name(self, name: str) -> str:
        if name.endswith("/"):
            path = name[:-1]
            if path in self._operations:
                path = self.names.unique_path(path)
            else:
                self.names.take(path)
            return path
        return self.names.unique(name)

    # ------------------------------------------------------------------ looking up

    def get_operations(self) -> list[Operation]:
        """Every operation, in the order of their making."""
        return list(self._operations.values())

    @property
    def version(self) -> int:
        """How many nodes the graph has."""
        return len(self._operations)

    @property
    def building_function(self) -> bool:
        """Whether this is the body of a function."""
        return False

    def get_operation_by_name(self, name: str) -> Operation:
        """The operation of that name.

        Raises:
            KeyError: There is none.
            ValueError: `name` names a tensor.
        """
        found = self.as_graph_element(name, allow_tensor=False)
        assert isinstance(found, Operation)
        return found

    def get_tensor_by_name(self, name: str) -> Tensor:
        """The tensor `operation:index`.

        Raises:
            KeyError: There is none.
            ValueError: `name` names an operation.
        """
        found = self.as_graph_element(name, allow_operation=False)
        assert isinstance(found, Tensor)
        return found

    def as_graph_element(
        self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True
    ) -> Tensor | Operation:
        """The tensor or operation that `obj` is, stands for, or names.

        Raises:
            TypeError: `obj` is nothing of the kind, or of the kind that is not allowed.
            ValueError: It belongs to another graph, or names the kind that is not allowed.
            KeyError: Nothing has that name.
        """
        kinds = " or ".join(["Tensor"] * allow_tensor + ["Operation"] * allow_operation)
        if isinstance(obj, str):
            found = self._by_name(obj, kinds if not allow_operation else None)
        elif isinstance(obj, Symbolic):
            found = obj._as_graph_element()
        elif isinstance(obj, Operation):
            found = obj
        else:
            raise TypeError(f"Can not convert a {type(obj).__name__} into a {kinds}.")
        if found.graph is not self:
            raise ValueError(f"{type(found).__name__} {found!r} is not an element of this graph.")
        if isinstance(found, Tensor) and not allow_tensor:
            if isinstance(obj, str):
                raise ValueError(f"The name {obj!r} refers to a Tensor, not an {kinds}.")
            raise TypeError(f"Can not convert a {type(obj).__name__} into a {kinds}.")
        if isinstance(found, Operation) and not allow_operation:
            if not isinstance(obj, str):
                raise TypeError(f"Can not convert a {type(obj).__name__} into a {kinds}.")
            raise ValueError(
                f"The name {obj!r} refers to an Operation, not a {kinds}. Tensor names must be of "
                'the form "<op_name>:<output_index>".'
            )
        return found

    def _by_name(self, name: str, tensors_only: str | None) -> Tensor | Operation:
        path, colon, index = name.rpartition(":")
        operation = self._operations.get(path if colon else name)
        if operation is None:
            if not colon and tensors_only:
                raise ValueError(
                    f"The name {name!r} looks like an (invalid) Operation name, not a "
                    f'{tensors_only}. Tensor names must be of the form "<op_name>:<output_index>".'
                )
            if not colon:
                raise KeyError(f"The name {name!r} refers to an Operation not in the graph.")
            raise KeyError(
                f"The name {name!r} refers to a Tensor which does not exist. The operation, "
                f"{path!r}, does not exist in the graph."
            )
        if not colon:
            return operation
        if not index.isdecimal():
            raise ValueError(
                f"The name {name!r} looks a like a Tensor name, but is not a valid one. Tensor "
                'names must be of the form "<op_name>:<output_index>".'
            )
        if int(index) >= len(operation.outputs):
            raise KeyError(
                f"The name {name!r} refers to a Tensor which does not exist. The operation, "
                f"{path!r}, exists but only has {len(operation.outputs)} outputs."
            )
        return operation.outputs[int(index)]

    # ------------------------------------------------------------------ scopes

    @contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Makes this the default graph of the thread inside a `with` block."""
        with default_graphs.entered(self._growing()):
            yield self

    def name_scope(self, name: str | None) -> AbstractContextManager[str]:
        """Puts names under `name/`, see `sparkflow.name_scope`."""
        return self._growing().names.entered(name)

    def get_name_scope(self) -> str:
        """The open name scope, "" at the root."""
        return self.names.scope

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """`name` as a node made now would be called."""
        return self.names.unique(name, mark_as_used)

    @property
    def is_placing(self) -> bool:
        """Whether a device or colocation scope is open."""
        return not self._placement.is_free

    @property
    def is_on_device(self) -> bool:
        """Whether a device scope decides where nodes go, and no colocation."""
        return self._placement.is_by_device

    def device(self, device_name_or_function: Any) -> AbstractContextManager[None]:
        """Pins nodes, see `sparkflow.device`."""
        if (growing := self._growing()) is not self:
            return growing.device(device_name_or_function)
        return self._placement.device(device_name_or_function)

    def colocate_with(self, op: Any, ignore_existing: bool = False) -> AbstractContextManager[None]:
        """Puts nodes where `op` is, see `sparkflow.colocate_with`.

        Raises:
            ValueError: `op` is None without `ignore_existing`.
        """
        if (growing := self._growing()) is not self:
            return growing.colocate_with(op, ignore_existing)
        if op is None and not ignore_existing:
            raise ValueError(
                "Trying to reset colocation (op is None) but ignore_existing is not True"
            )
        return self._placement.colocated(None if op is None else self._as_op(op), ignore_existing)

    def switch_to_thread_local(self) -> None:
        """Makes device scopes, colocations and control dependencies local to each thread.

        Those that are open now stay open in this thread only. Name scopes are each thread's own in
        any case.
        """
        self._placement = per_thread(Placement, self._placement)
        self._control = per_thread(ControlDependencies, self._control)

    def colocation_group(self, name: str) -> AbstractContextManager[None]:
        """Puts nodes where the node `name` will be, which may be made later."""
        if (growing := self._growing()) is not self:
            return growing.colocation_group(name)
        return self._placement.grouped(name)

    def control_dependencies(
        self, control_inputs: Sequence[Any] | None
    ) -> AbstractContextManager[None]:
        """Makes nodes wait for others, see `sparkflow.control_dependencies`."""
        if (growing := self._growing()) is not self:
            return growing.control_dependencies(control_inputs)
        if control_inputs is None:
            return self._control.entered(None)
        return self._control.entered([self._as_op(each) for each in control_inputs])

    @contextmanager
    def init_scope(self) -> Iterator[None]:
        """Suspends control dependencies, as initialisers of variables need it; leaves functions."""
        growing = self._growing()
        with self._control.entered(None) if growing is self else growing.init_scope():
            yield

    @contextmanager
    def container(self, container_name: str) -> Iterator[str]:
        """Creates stateful nodes inside the block in this resource container."""
        growing = self._growing()
        outer, growing._container = growing._container, container_name
        try:
            yield container_name
        finally:
            growing._container = outer

    @contextmanager
    def gradient_override_map(self, op_type_map: Mapping[str, str]) -> Iterator[None]:
        """Uses other gradients for the ops created inside the block.

        Args:
            op_type_map: From op types to names given to `tf.RegisterGradient`.

        Raises:
            TypeError: It is not a dictionary of texts.
        """
        if not isinstance(op_type_map, dict) or not all(
            isinstance(text, str) for pair in op_type_map.items() for text in pair
        ):
            raise TypeError("op_type_map must be a dictionary mapping strings to strings")
        growing = self._growing()
        outer = growing._gradient_overrides
        growing._gradient_overrides = {**outer, **op_type_map}
        try:
            yield
        finally:
            growing._gradient_overrides = outer

    def _as_op(self, obj: Any) -> Operation:
        element = self.as_graph_element(obj)
        return element.op if isinstance(element, Tensor) else element

    # ------------------------------------------------------------------ rules

    def finalize(self) -> None:
        """Refuses new nodes from now on."""
        self.finalized = True

    def prevent_feeding(self, tensor: Tensor) -> None:
        """Refuses `tensor` as a key of a feed_dict."""
        self._unfeedable.add(tensor)

    def is_feedable(self, tensor: Tensor) -> bool:
        """Whether `tensor` may be fed."""
        return tensor not in self._unfeedable

    def prevent_fetching(self, op: Operation) -> None:
        """Refuses `op` and its tensors as fetches."""
        self._unfetchable.add(op)

    def is_fetchable(self, tensor_or_op: Tensor | Operation) -> bool:
        """Whether it may be fetched."""
        op = tensor_or_op.op if isinstance(tensor_or_op, Tensor) else tensor_or_op
        return op not in self._unfetchable

    def as_graph_def(
        self, from_version: int | None = None, add_shapes: bool = False
    ) -> graph_pb2.GraphDef:
        """The nodes as a message.

        Args:
            from_version: Only those made after the graph had this many.
            add_shapes: Adds the inferred shapes as attribute `_output_shapes`.
        """
        result = self.to_message(from_version, add_shapes)
        for nodes in (result.node, *(each.node_def for each in result.library.function)):
            for node in nodes:
                node.attr.pop(SOURCE_ATTR, None)
        from sparkflow.graph.nodes.reach import remember

        remember(result)
        return result

    def to_message(
        self, from_version: int | None = None, add_shapes: bool = False
    ) -> graph_pb2.GraphDef:
        """The same with the user's lines that made the nodes, for those who run the graph."""
        operations = list(self._operations.values())[from_version or 0 :]
        nodes = [operation.to_node() for operation in operations]
        result = graph_def.export_graph(nodes)
        result.versions.CopyFrom(self.graph_def_versions)
        if self._functions:
            self._add_library(result)
        if add_shapes:
            for node, operation in zip(result.node, operations, strict=True):
                listed = node.attr["_output_shapes"].list
                listed.shape.extend(tensor.shape.as_proto() for tensor in operation.outputs)
        return result

    def _add_library(self, graph_def: graph_pb2.GraphDef) -> None:
        """Adds the functions that the nodes call, directly or through others."""
        graph_def.library.function.extend(self._called_from([*_called(graph_def.node)], set()))

    def _called_from(self, names: list[str], known: set[str]) -> Iterator[function_pb2.FunctionDef]:
        """The functions of these names, and those they call, but for those that are known."""
        while names:
            name = names.pop()
            if name not in known and name in self.root._functions:
                known.add(name)
                function = self.root._functions[name]
                if not isinstance(function, function_pb2.FunctionDef):
                    function = function.to_proto()
                yield function
                names += _called(function.node_def)


def _called(nodes: Iterable[node_def_pb2.NodeDef]) -> Iterator[str]:
    for node in nodes:
        yield from graph_def.called_functions(node)


def _text(function: function_pb2.FunctionDef) -> bytes:
    """A function without the user's lines that made it."""
    copy = function_pb2.FunctionDef()
    copy.CopyFrom(function)
    for node in copy.node_def:
        node.attr.pop(SOURCE_ATTR, None)
    return copy.SerializeToString(deterministic=True)
