"""Other nodes in the place of a message's variables, also where functions read them by a handle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np

from sparkflow_runtime.dtypes import resource
from sparkflow_runtime.ir.graph_def import export_attr
from sparkflow_runtime.ops import registry
from sparkflow_runtime.protos.function_pb2 import FunctionDef
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef

_INT32: Final = 3
_RESOURCE: Final = resource.number


def replace_variables(graph_def: GraphDef, replacements: Mapping[str, NodeDef]) -> GraphDef:
    """Returns a graph in which other nodes stand for variables.

    What read a variable by its handle reads the value of the other node. Functions that conditions
    and loops call with a handle are copied, and get the value.

    Args:
        graph_def: The graph. It must not change these variables.
        replacements: Nodes that give a value, of the same name, by the names of variables.

    Raises:
        ValueError: Something takes the handle of such a variable that cannot take its value.
    """
    result = GraphDef(versions=graph_def.versions)
    result.library.CopyFrom(graph_def.library)
    functions = _Functions(result)
    handles = {
        node.name: int(replacements[node.name].attr["dtype"].type)
        for node in graph_def.node
        if node.name in replacements and not gives_reference(node)
    }
    rest = [node for node in graph_def.node if node.name not in replacements]
    rewritten = {node.name: made for node, made in functions.rewritten(rest, handles, "")}
    for node in graph_def.node:
        result.node.extend(rewritten.get(node.name) or [replacements[node.name]])
    return result


def gives_reference(node: NodeDef) -> bool:
    """Whether a node is a variable without a handle."""
    kind = registry.find(node.op)
    return kind.is_variable and kind.signature.gives_references


def hands_on(node: NodeDef) -> bool:
    """Whether a node only passes on its input."""
    kind = registry.find(node.op)
    return (kind.passes_on or kind.checks) and len(kind.signature.inputs) == 1


def reads_handle(node: NodeDef) -> bool:
    """Whether a node reads the variable of a handle."""
    kind = registry.find(node.op)
    return kind.reads_variable and kind.signature.inputs[0].dtype is resource


def node_name(text: str) -> str:
    """The name of the node that an input names."""
    return text.removeprefix("^").partition(":")[0]


class _Functions:
    """Rewrites nodes, and makes copies of the functions that they call."""

    def __init__(self, graph_def: GraphDef) -> None:
        self._library = graph_def.library
        self._by_name = {each.signature.name: each for each in graph_def.library.function}
        self._copies: dict[tuple[str, tuple[tuple[int, int], ...]], str] = {}

    def rewritten(
        self, nodes: Iterable[NodeDef], handles: dict[str, int], output: str
    ) -> Iterable[tuple[NodeDef, list[NodeDef]]]:
        """Yields each node with those that stand for it.

        Args:
            nodes: In the order of the data.
            handles: The dtypes of variables by the names of their handles; handles that are passed
                on are added.
            output: What names the output of a constant after its name: `:output:0` in functions.
        """
        for node in nodes:
            taken = {
                place: handles[node_name(text)]
                for place, text in enumerate(node.input)
                if not text.startswith("^") and node_name(text) in handles
            }
            if not taken:
                yield node, [node]
            elif node.op in _OF_VALUES:
                yield node, _OF_VALUES[node.op](node, output)
            elif hands_on(node):
                copy = NodeDef()
                copy.CopyFrom(node)
                handles[node.name] = taken[0]
                copy.attr["T"].type = taken[0]  # type: ignore[assignment]  # as below
                yield node, [copy]
            else:
                yield node, [self._calling(node, taken)]

    def _calling(self, node: NodeDef, taken: Mapping[int, int]) -> NodeDef:
        copy = NodeDef()
        copy.CopyFrom(node)
        called = [attr.func for attr in copy.attr.values() if attr.WhichOneof("value") == "func"]
        types = next((copy.attr[key] for key in ("Tin", "T") if key in node.attr), None)
        if not called or types is None or any(each.name not in self._by_name for each in called):
            raise ValueError(
                f"The variable that {node.name!r} ({node.op}) takes by its handle cannot be "
                "replaced by its value. Use a variable made with use_resource=False."
            )
        # A condition has an input before those of its branches.
        first = len([text for text in node.input if text[0] != "^"]) - len(types.list.type)
        wanted = {place - first: dtype for place, dtype in taken.items()}
        for place, dtype in wanted.items():
            types.list.type[place] = dtype  # type: ignore[call-overload]  # the enum's numbers
        for function in called:
            function.name = self._copied(function.name, wanted)
        return copy

    def _copied(self, name: str, wanted: Mapping[int, int]) -> str:
        """Returns the name of a function whose arguments at these places are values."""
        key = name, tuple(sorted(wanted.items()))
        if key not in self._copies:
            made = f"{name}_of_values"
            while made in self._by_name:
                made += "_"
            self._copies[key] = made
            copy = self._library.function.add()
            copy.CopyFrom(self._by_name[name])
            copy.signature.name = made
            self._by_name[made] = copy
            self._rewrite(copy, wanted)
        return self._copies[key]

    def _rewrite(self, function: FunctionDef, wanted: Mapping[int, int]) -> None:
        handles: dict[str, int] = {}
        for place, dtype in wanted.items():
            argument = function.signature.input_arg[place]
            argument.type = dtype  # type: ignore[assignment]  # the enum's numbers are ints
            handles[argument.name] = dtype
        pairs = list(self.rewritten(list(function.node_def), handles, ":output:0"))
        reads = {node.name for node, made in pairs if node.op == _READ and made[0].op != _READ}
        nodes = [each for _, made in pairs for each in made]
        function.ClearField("node_def")
        function.node_def.extend(nodes)
        for node in function.node_def:
            node.input[:] = [_read(text, reads) for text in node.input]
        for output in function.signature.output_arg:
            source = function.ret[output.name]
            function.ret[output.name] = _read(source, reads)
            if output.type == _RESOURCE and node_name(source) in handles:
                output.type = handles[node_name(source)]  # type: ignore[assignment]


def _read(text: str, reads: set[str]) -> str:
    """An input of a function's node, where reads have become identities."""
    return f"{node_name(text)}:output:0" if text[0] != "^" and node_name(text) in reads else text


_READ: Final = "ReadVariableOp"


def _identity(read: NodeDef, output: str) -> list[NodeDef]:
    node = NodeDef(name=read.name, op="Identity", input=read.input, device=read.device)
    node.attr["T"].CopyFrom(read.attr["dtype"])
    return [node]


def _gather(read: NodeDef, output: str) -> list[NodeDef]:
    axis = NodeDef(name=f"{read.name}/axis", op="Const", device=read.device)
    axis.attr["dtype"].type = _INT32  # type: ignore[assignment]  # the enum's numbers are ints
    axis.attr["value"].CopyFrom(export_attr(np.asarray(0, np.int32)))
    inputs = [read.input[0], read.input[1], f"{axis.name}{output}", *read.input[2:]]
    node = NodeDef(name=read.name, op="GatherV2", input=inputs, device=read.device)
    node.attr["Tparams"].CopyFrom(read.attr["dtype"])
    node.attr["Tindices"].CopyFrom(read.attr["Tindices"])
    node.attr["Taxis"].type = _INT32  # type: ignore[assignment]  # the enum's numbers are ints
    return [axis, node]


def _gather_nd(read: NodeDef, output: str) -> list[NodeDef]:
    node = NodeDef(name=read.name, op="GatherNd", input=read.input, device=read.device)
    node.attr["Tparams"].CopyFrom(read.attr["dtype"])
    node.attr["Tindices"].CopyFrom(read.attr["Tindices"])
    return [node]


_OF_VALUES: Final[Mapping[str, Callable[[NodeDef, str], list[NodeDef]]]] = {
    _READ: _identity,
    "ResourceGather": _gather,
    "ResourceGatherNd": _gather_nd,
}
"""What stands for a node that reads a variable by its handle, once it gets the value itself."""


def constant(variable: NodeDef, value: Any) -> NodeDef:
    """Returns the constant that stands for a variable of this value."""
    node = NodeDef(name=variable.name, op="Const", device=variable.device)
    node.attr["dtype"].CopyFrom(variable.attr["dtype"])
    array = np.asarray(value, object) if isinstance(value, bytes) else np.asarray(value)
    node.attr["value"].CopyFrom(export_attr(array))
    return node
