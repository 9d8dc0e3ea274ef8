"""One node of the graph, as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sparkflow_runtime.errors import InvalidArgumentError


class Endpoint(NamedTuple):
    """One output of one node; written `node:slot`."""

    node: str
    slot: int

    def __str__(self) -> str:
        return f"{self.node}:{self.slot}"


ARG: Final = "_Arg"
RETVAL: Final = "_Retval"
"""The ops that represent a graph's arguments and results, by their `index`."""
SEND: Final = "_SendBundle"
RECEIVE: Final = "_RecvBundle"
"""The ops that replace edges between devices, see `passes.partitioning`."""
CONST: Final = "Const"
NO_OP: Final = "NoOp"
STARTS: Final = frozenset({CONST, ARG})
"""Nodes of these ops exist before a step begins: waiting for one is immediate."""
NO_WORK: Final = frozenset({CONST, NO_OP})
"""Nodes of these ops are not called when a step runs."""
START: Final = "_CollectiveStart"
WAIT: Final = "_CollectiveWait"
"""The ops that are the two halves of a collective, see `passes.collectives`."""
_MAX_DIGITS: Final = 9
"""Maximum number of digits of an output's number; Python rejects numbers of thousands of digits."""


def parse_endpoint(text: str) -> Endpoint:
    """Reads `node:slot`, or `node` for its first output.

    Raises:
        InvalidArgumentError: The text is malformed, or a control input (`^node`).
    """
    name, colon, index = text.rpartition(":")
    if not colon:
        name, index = text, "0"
    if not name or name.startswith("^") or not index.isdecimal() or len(index) > _MAX_DIGITS:
        raise InvalidArgumentError(message=f"{text!r} does not name a tensor ('node:index')")
    return Endpoint(name, int(index))


SOURCE_ATTR = "_source"
"""The attribute that carries the user's `file:line` of a node."""
TURN_ATTR = "_pipeline_turn"
"""The attribute for the earliest level of a node in a pipeline of stages, see
`passes.partitioning.partition`."""
CLASS_ATTR = "_class"
"""TensorFlow's colocation attribute: a list of `loc:@node`."""
COLOCATION_PREFIX = "loc:@"


@dataclass(frozen=True, slots=True)
class Node:
    """One operation of a graph.

    Attributes:
        name: Unique in the graph.
        op: The op type.
        inputs: Data inputs in order, lists flattened.
        control_inputs: Names of nodes that must have run before.
        device: Full or partial device name; "" if unconstrained.
        attrs: Canonical values: numbers, strings, `DType`, a tuple for a shape (None: unknown
            rank), a numpy array for a tensor, a list for a list.
    """

    name: str
    op: str
    inputs: tuple[Endpoint, ...] = ()
    control_inputs: tuple[str, ...] = ()
    device: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The user's `file:line` that created the node, "" if unknown."""
        return str(self.attrs.get(SOURCE_ATTR, ""))

    @property
    def colocated_with(self) -> tuple[str, ...]:
        """Names of the nodes with which this one must share a device."""
        return tuple(
            item[len(COLOCATION_PREFIX) :]
            for item in self.attrs.get(CLASS_ATTR, ())
            if item.startswith(COLOCATION_PREFIX)
        )

    @property
    def definition(self) -> str:
        """The node as a line of a program: `name = Op(input, other:1, ^control)`."""
        inputs = [str(each) if each.slot else each.node for each in self.inputs]
        inputs += [f"^{name}" for name in self.control_inputs]
        return f"{self.name} = {self.op}({', '.join(inputs)})"

    def describe(self) -> str:
        """Returns the node's name in error messages."""
        on = f" on {self.device}" if self.device else ""
        made = f", defined at {self.source}" if self.source else ""
        return f"[[node {self.name!r} ({self.op}){on}{made}]]"
