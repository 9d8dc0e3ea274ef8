"""Nodes from a GraphDef message into the graph under construction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sparkflow import version
from sparkflow._api import export
from sparkflow.graph.graph import Graph
from sparkflow.graph.nodes.naming import is_node_name
from sparkflow.graph.nodes.reach import Allowed, contained
from sparkflow.graph.operation import Operation
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import kernel_name
from sparkflow_runtime.errors import InvalidArgumentError, NotFoundError
from sparkflow_runtime.ir.graph import Graph as Nodes
from sparkflow_runtime.ir.graph_def import PRODUCER_VERSION, export_attr, import_graph
from sparkflow_runtime.ir.node import CLASS_ATTR, COLOCATION_PREFIX, Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.protos import graph_pb2, op_def_pb2, versions_pb2

_OUTPUT_SHAPES = "_output_shapes"
_MERGES = ("Merge", "RefMerge")
_NEXT_ITERATIONS = ("NextIteration", "RefNextIteration")


@export("import_graph_def")
def import_graph_def(
    graph_def: graph_pb2.GraphDef,
    input_map: Mapping[str, Any] | None = None,
    return_elements: Sequence[str] | None = None,
    name: str | None = None,
    op_dict: Any = None,
    producer_op_list: op_def_pb2.OpList | None = None,
    allowed_ops: Allowed = None,
) -> list[Tensor | Operation] | None:
    """Adds the nodes of a message to the default graph, or none of them when that fails.

    Args:
        graph_def: The nodes.
        input_map: Tensors of the graph to use instead of tensors of the message, by their names in
            the message; operations to wait for instead of others, by `^name`.
        return_elements: Names in the message of what to return.
        name: Prefix of all names; `import` when None, no prefix when "".
        op_dict: Accepted for TensorFlow's sake.
        producer_op_list: The op types as the writer knew them. An attribute that is not known here
            may be left out where it has the default it has there.

        allowed_ops: Op types of the message that may read or write files, call Python functions or
            talk to other tasks, or "all". They are refused otherwise, unless this program made the
            same nodes itself, or the nodes save and restore what is fed.

    Returns:
        The tensors and operations asked for; None when `return_elements` is.

    Raises:
        PermissionDeniedError: The message has ops that would have to be allowed.
        TypeError: `graph_def` is not a GraphDef, or another argument of the wrong kind.
        ValueError: A name is not in the message, or a node does not fit.
        NotFoundError: An op type is not known.
    """
    if not isinstance(graph_def, graph_pb2.GraphDef):
        raise TypeError(f"graph_def must be a GraphDef proto, got {type(graph_def).__name__}.")
    given: object = input_map  # may be anything, whatever its annotation says
    if given is not None and not (
        isinstance(given, Mapping) and all(isinstance(key, str | bytes) for key in given)
    ):
        raise TypeError(
            f"input_map must be a dictionary mapping strings to Tensor objects, got {input_map!r}"
        )
    replaced = {_text(key): value for key, value in (input_map or {}).items()}
    if return_elements is not None:
        return_elements = tuple(return_elements)
        if not all(isinstance(each, str | bytes) for each in return_elements):
            raise TypeError(f"return_elements must be a list of strings, got {return_elements!r}")
        return_elements = tuple(map(_text, return_elements))
    _require_version(graph_def.versions)
    graph = get_default_graph()
    beside = graph.functions_beside(graph_def)
    graph_def = contained(graph_def, allowed_ops, "The graph", beside=beside)
    graph_def = _with_own_functions(graph, graph_def)
    try:
        source = import_graph(graph_def)
    except InvalidArgumentError as error:
        raise ValueError(error.message) from error
    producers = {each.name: each for each in producer_op_list.op} if producer_op_list else {}
    with _all_or_nothing(graph):
        for function in graph_def.library.function:
            graph.add_function(function.signature.name, function)
        with graph.name_scope("import" if name is None else name) as scope:
            importer = _Importer(graph, scope, _mapped(graph, replaced, source, scope), producers)
            importer.require_groups(source)
            for node in importer.order(source):
                importer.add(node)
            importer.close_loops()
        found = None if return_elements is None else list(map(importer.element, return_elements))
    graph._take_versions(graph_def.versions)
    return found


@contextmanager
def _all_or_nothing(graph: Graph) -> Iterator[None]:
    """Takes back the nodes, names and functions that are added to a graph when that fails.

    Like all changes of a graph, not for one that another thread changes or runs at the same time.
    """
    root, names, before = graph.root, graph.names.taken(), graph.get_operations()
    functions, taken = set(root._functions), set(root._taken_functions)
    try:
        yield
    except BaseException:
        for operation in graph.get_operations()[len(before) :]:
            del graph._operations[operation.name]
        for name in set(root._functions) - functions:
            del root._functions[name]
        root._taken_functions &= taken
        graph.names.restore(names)
        raise


def _with_own_functions(graph: Graph, graph_def: graph_pb2.GraphDef) -> graph_pb2.GraphDef:
    """The message; where the graph has another function of a name, all have names of their own.

    Programs name their functions `cond_true_0` and so on, so two models have the same names.
    """
    library = graph_def.library.function
    if not any(map(graph.has_other_function, library)):
        return graph_def
    result = graph_pb2.GraphDef()
    result.CopyFrom(graph_def)
    # All of them: one that is the same may call one that is not.
    names = {each.signature.name: graph.new_function_name(each.signature.name) for each in library}
    for function in result.library.function:
        function.signature.name = names[function.signature.name]
    for gradient in result.library.gradient:
        gradient.function_name = names.get(gradient.function_name, gradient.function_name)
        gradient.gradient_func = names.get(gradient.gradient_func, gradient.gradient_func)
    for nodes in (result.node, *(each.node_def for each in result.library.function)):
        for node in nodes:
            for value in node.attr.values():
                called = [*value.list.func, *([value.func] if value.HasField("func") else [])]
                for each in called:
                    each.name = names.get(each.name, each.name)
    return result


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _require_version(versions: versions_pb2.VersionDef) -> None:
    """Passes when a graph may be read by what this is.

    Raises:
        ValueError: It asks for something newer, or for anything but this version.
    """
    here = PRODUCER_VERSION
    if versions.min_consumer > here:
        raise ValueError(
            f"GraphDef min consumer version {versions.min_consumer} above current version {here} "
            f"for TensorFlow {version.VERSION}.  Please upgrade TensorFlow: what sparkflow "
            f"{version.SPARKFLOW_VERSION} reads is of that version."
        )
    if here in versions.bad_consumers:
        raise ValueError(
            f"GraphDef disallows consumer version {here}.  Please upgrade TensorFlow: this version "
            f"is likely buggy. It is that of what sparkflow {version.SPARKFLOW_VERSION} reads."
        )


def _mapped(
    graph: Graph, input_map: Mapping[str, Any], source: Nodes, scope: str
) -> dict[Endpoint | str, Tensor | Operation]:
    """What replaces which tensor (by endpoint), and which operation (by name).

    Raises:
        ValueError: The message has, and reads, nothing of a name; or a value is no tensor and there
            is no scope to convert it in.
    """
    read = {endpoint for node in source for endpoint in node.inputs}
    waited = {name for node in source for name in node.control_inputs}
    found: dict[Endpoint | str, Tensor | Operation] = {}
    unknown = []
    for key, value in input_map.items():
        if key.startswith("^"):
            element = graph.as_graph_element(value)
            found[key[1:]] = element.op if isinstance(element, Tensor) else element
            if key[1:] not in source and key[1:] not in waited:
                unknown.append(key)
            continue
        endpoint = _endpoint(key)
        if endpoint.node not in source and endpoint not in read:
            unknown.append(key)
        elif isinstance(value, Symbolic):
            found[endpoint] = value._to_tensor(as_ref=True)
        elif not scope:
            raise ValueError(
                "tf.import_graph_def() requires a non-empty `name` if `input_map` contains "
                f"non-Tensor values, got {value!r} for {key!r}. Call tf.convert_to_tensor() on it "
                "before."
            )
        else:
            with graph.name_scope("_inputs"):
                found[endpoint] = graph.convert(value)
    if unknown:
        raise ValueError(
            "Attempted to map inputs that were not found in graph_def: "
            f"[{', '.join(sorted(unknown))}]"
        )
    return found


class _Importer:
    """Adds nodes in topological order; loops are closed at the end."""

    def __init__(
        self,
        graph: Graph,
        scope: str,
        replaced: Mapping[Endpoint | str, Tensor | Operation],
        producers: Mapping[str, op_def_pb2.OpDef],
    ) -> None:
        self._graph = graph
        self._scope = scope
        self._replaced = replaced
        self._producers = producers
        self._made: dict[str, Operation] = {}
        self._back: dict[str, dict[int, Endpoint]] = {}

    def order(self, source: Nodes) -> list[Node]:
        """The nodes, each after those it reads.

        Raises:
            ValueError: A node reads what is not there, or the nodes are a cycle.
        """
        replaced = self._replaced
        for node in source:
            if node.op in _MERGES:
                places = {
                    place: each
                    for place, each in enumerate(node.inputs)
                    if each not in replaced
                    and each.node in source
                    and source[each.node].op in _NEXT_ITERATIONS
                }
                if places and len(places) < len(node.inputs):
                    self._back[node.name] = places
        reduced = Nodes(
            replace(
                node,
                inputs=tuple(
                    each
                    for place, each in enumerate(node.inputs)
                    if each not in replaced and place not in self._back.get(node.name, ())
                ),
                control_inputs=tuple(each for each in node.control_inputs if each not in replaced),
            )
            for node in source
        )
        try:
            return [source[node.name] for node in reduced.sorted()]
        except (InvalidArgumentError, NotFoundError) as error:
            raise ValueError(f"graph_def is invalid: {error.message}") from error

    def require_groups(self, source: Nodes) -> None:
        """Passes when every node that others are to be with is there.

        Raises:
            ValueError: One is not.
        """
        for node in source:
            for other in node.colocated_with:
                if other not in source:
                    raise ValueError(
                        f"Node '{node.name}' expects to be colocated with unknown node '{other}'"
                    )

    def add(self, node: Node) -> None:
        """Adds one node whose inputs are there already."""
        if not is_node_name(node.name):
            raise ValueError(f"Node '{node.name}': Node name contains invalid characters")
        attrs = self._known_attrs(node)
        flat = self._inputs(node, attrs)
        waited = [self._waited(name) for name in node.control_inputs]
        with (
            self._graph.control_dependencies(waited),
            self._graph.device(node.device or ""),
        ):
            try:
                op = self._graph.add_node(
                    node.op, grouped(node.op, flat, attrs), attrs, f"{self._scope}{node.name}/"
                )
            except TypeError as error:  # for who calls, the message is of the right kind
                raise ValueError(str(error)) from error
        if node.colocated_with:
            groups = [f"{COLOCATION_PREFIX}{self._scope}{other}" for other in node.colocated_with]
            op._set_attr(CLASS_ATTR, groups)
        if node.name in self._back:
            op.outputs[0]._shape = None  # what the loop comes back with is not made yet
        recorded = node.attrs.get(_OUTPUT_SHAPES)
        if isinstance(recorded, list) and len(recorded) == len(op.outputs):
            for tensor, shape in zip(op.outputs, recorded, strict=True):
                if shapes.is_compatible(tensor._shape, shape):
                    tensor.set_shape(shape)
        self._made[node.name] = op

    def close_loops(self) -> None:
        """Gives the merges of loops what their iterations come back with.

        Raises:
            ValueError: It has another dtype than what enters the loop.
        """
        for name, places in self._back.items():
            op = self._made[name]
            inputs = list(op.inputs)
            for place, endpoint in places.items():
                found = self._made[endpoint.node].outputs[endpoint.slot]
                if found.dtype.base is not inputs[place].dtype.base:
                    raise ValueError(
                        f"Input {place} of node {op.name} was passed "
                        f"{kernel_name(found.dtype)} from {found.name} incompatible with expected "
                        f"{kernel_name(inputs[place].dtype)}."
                    )
                inputs[place] = found
            op.inputs = tuple(inputs)

    def _known_attrs(self, node: Node) -> dict[str, Any]:
        """The attributes that this op type has here.

        Raises:
            ValueError: One it does not have is not what the writer takes for granted.
        """
        signature = registry.lookup(node.op).signature
        attrs = {}
        producer = self._producers.get(node.op)
        defaults = {each.name: each for each in producer.attr} if producer is not None else None
        for key, value in node.attrs.items():
            if key in signature.attrs or key.startswith("_"):
                if key not in (CLASS_ATTR, _OUTPUT_SHAPES):
                    attrs[key] = value
                continue
            if defaults is None:
                continue  # nobody tells what the writer takes for granted
            spec = defaults.get(key)
            if spec is None or not spec.HasField("default_value"):
                raise ValueError(f"Node {node.name!r} ({node.op}): no attr named {key!r}")
            if export_attr(value, spec.type) != spec.default_value:
                raise ValueError(
                    f"Node {node.name!r} ({node.op}) has {key}={value!r}, an attribute that is not "
                    "known here and has not its default value"
                )
        return attrs

    def _inputs(self, node: Node, attrs: Mapping[str, Any]) -> list[Tensor]:
        back = self._back.get(node.name)
        if back is not None:
            first = next(each for place, each in enumerate(node.inputs) if place not in back)
            entering = self._input(node, first)
            return [
                entering if place in back else self._input(node, each)
                for place, each in enumerate(node.inputs)
            ]
        flat = [self._input(node, endpoint) for endpoint in node.inputs]
        signature = registry.lookup(node.op).signature
        try:
            expected = signature.input_dtypes(attrs)
        except KeyError:
            return flat
        if len(flat) != len(expected):
            raise ValueError(
                f"NodeDef expected inputs '{', '.join(map(kernel_name, expected))}' do not match "
                f"{len(flat)} inputs specified; Op<name={node.op}>; "
                f"NodeDef: {{{{node {self._scope}{node.name}}}}}"
            )
        for index, (tensor, dtype) in enumerate(zip(flat, expected, strict=True)):
            if tensor.dtype.base is not dtype.base:
                raise ValueError(
                    f"Input {index} of node {self._scope}{node.name} was passed "
                    f"{kernel_name(tensor.dtype)} from {tensor.name} incompatible with expected "
                    f"{kernel_name(dtype)}."
                )
        return flat

    def _input(self, node: Node, endpoint: Endpoint) -> Tensor:
        if endpoint in self._replaced:
            found = self._replaced[endpoint]
            assert isinstance(found, Tensor)
            return found
        outputs = self._made[endpoint.node].outputs
        if endpoint.slot >= len(outputs):
            raise ValueError(
                f"Node {node.name!r}: Connecting to invalid output {endpoint.slot} of source node "
                f"{endpoint.node} which has {len(outputs)} outputs."
            )
        return outputs[endpoint.slot]

    def _waited(self, name: str) -> Operation:
        found = self._replaced.get(name, self._made.get(name))
        assert isinstance(found, Operation)
        return found

    def element(self, name: str) -> Tensor | Operation:
        """What has this name in the message."""
        if ":" in name and _endpoint(name) in self._replaced:
            return self._replaced[_endpoint(name)]
        path, colon, index = name.partition(":")
        op = self._made.get(path)
        if (
            op is None
            or (colon and not index.isdecimal())
            or (colon and int(index) >= len(op.outputs))
        ):
            raise ValueError(self._not_there(name, path, op))
        return op.outputs[int(index)] if colon else op

    @staticmethod
    def _not_there(name: str, path: str, op: Operation | None) -> str:
        """Why nothing has this name, in TensorFlow's words."""
        if op is None:
            what = "tensor" if ":" in name else "node"
            return f"Requested return {what} {name!r} not found in graph def"
        index = name.partition(":")[2]
        return (
            f"Invalid return output {index} of node {path!r}, which has {len(op.outputs)} output(s)"
        )


def _endpoint(name: str) -> Endpoint:
    path, _, index = name.partition(":")
    return Endpoint(path, int(index or 0))


def grouped(op_type: str, flat: Sequence[Tensor], attrs: Mapping[str, Any]) -> list[Any]:
    """The inputs of a node by argument, list arguments as lists."""
    rest = list(flat)
    result: list[Any] = []
    for arg in registry.lookup(op_type).signature.inputs:
        if not arg.is_list:
            result.append(rest.pop(0) if rest else [])
            continue
        count = (
            attrs[arg.number_attr]
            if arg.number_attr is not None
            else len(attrs[str(arg.list_attr)])
        )
        result.append(rest[:count])
        del rest[:count]
    return [*result, *rest]
