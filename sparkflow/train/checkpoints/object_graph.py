"""The objects below a `tf.train.Checkpoint`: who has what, under which name, and what is saved.

The names of tensors and the message beside them are TensorFlow's: what one writes the other reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sparkflow.train.optimizers.optimizer import Optimizer
from sparkflow.variables.trackable import Trackable
from sparkflow.variables.variable import Variable
from sparkflow_runtime.protos.trackable_object_graph_pb2 import TrackableObjectGraph

OBJECT_GRAPH_KEY: Final = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""The tensor that holds the message."""
_VALUE: Final = "VARIABLE_VALUE"
_ATTRIBUTES: Final = ".ATTRIBUTES"
_SLOT: Final = ".OPTIMIZER_SLOT"
Node = TrackableObjectGraph.TrackableObject


@dataclass(slots=True)
class ObjectGraph:
    """The objects that are reachable from a root.

    Attributes:
        objects: All of them, the root first, slot variables last.
        paths: By number, the names on the shortest way from the root, escaped.
        message: What is saved of it.
        variables: The variables by the names of their tensors.
    """

    objects: list[Any] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    message: TrackableObjectGraph = field(default_factory=TrackableObjectGraph)
    variables: dict[str, Variable] = field(default_factory=dict)

    @classmethod
    def below(cls, root: Any) -> ObjectGraph:
        """What is reachable from `root`, breadth first."""
        graph = cls()
        numbers: dict[int, int] = {}
        waiting = deque([(root, "")])
        graph._add(root, "", numbers)
        while waiting:
            item, path = waiting.popleft()
            node = graph.message.nodes[numbers[id(item)]]
            for name, child in children(item).items():
                if id(child) not in numbers:
                    inner = f"{path}/{_escaped(name)}" if path else _escaped(name)
                    graph._add(child, inner, numbers)
                    waiting.append((child, inner))
                node.children.add(node_id=numbers[id(child)], local_name=name)
        graph._add_slots(numbers)
        return graph

    def _add(self, item: Any, path: str, numbers: dict[int, int]) -> None:
        numbers[id(item)] = len(self.objects)
        self.objects.append(item)
        self.paths.append(path)
        node = self.message.nodes.add()
        if isinstance(item, Variable):
            key = f"{path}/{_ATTRIBUTES}/{_VALUE}"
            node.attributes.add(name=_VALUE, full_name=item.op.name, checkpoint_key=key)
            node.has_checkpoint_values.value = True
            self.variables[key] = item

    def _add_slots(self, numbers: dict[int, int]) -> None:
        owners = [(number, item) for number, item in enumerate(self.objects) if _is_optimizer(item)]
        for number, optimizer in owners:
            for (name, primary), slot in slots_of(optimizer):
                if id(primary) not in numbers:
                    continue
                if id(slot) not in numbers:
                    original = self.paths[numbers[id(primary)]]
                    owner = self.paths[number]
                    path = f"{original}/{_SLOT}/{owner}/{_escaped(name)}"
                    self._add(slot, path, numbers)
                self.message.nodes[number].slot_variables.add(
                    original_variable_node_id=numbers[id(primary)],
                    slot_name=name,
                    slot_variable_node_id=numbers[id(slot)],
                )


def children(item: Any) -> Mapping[str, Any]:
    """The parts of an object that can be saved, by name."""
    if isinstance(item, Variable):
        return {}
    if isinstance(item, dict):
        parts = {name: part for name, part in item.items() if isinstance(name, str)}
    elif isinstance(item, list | tuple):
        parts = {str(place): part for place, part in enumerate(item)}
    else:
        parts = item._trackable_children()
    return {name: part for name, part in parts.items() if is_trackable(part)}


def is_trackable(item: Any) -> bool:
    """Whether it can be saved; a list or dictionary where one of its items can."""
    if isinstance(item, dict):
        return any(is_trackable(each) for each in item.values())
    if isinstance(item, list | tuple):
        return any(is_trackable(each) for each in item)
    return isinstance(item, Variable | Trackable) and not isinstance(item, type)


def slots_of(optimizer: Optimizer) -> Iterator[tuple[tuple[str, Variable], Variable]]:
    """The slot variables of an optimizer, by their name and what they belong to."""
    yield from sorted(optimizer._slots.items(), key=lambda item: (item[0][1].op.name, item[0][0]))


def _is_optimizer(item: Any) -> bool:
    return isinstance(item, Optimizer)


@dataclass(slots=True)
class Matching:
    """Which objects stand for those of a checkpoint.

    Attributes:
        message: The checkpoint's objects.
        found: The object for each number of a node of the message.
        names: By number, the dotted names from the root, for messages.
    """

    message: TrackableObjectGraph
    found: dict[int, Any]
    names: dict[int, str]

    @classmethod
    def of(cls, root: Any, message: TrackableObjectGraph) -> Matching:
        """Compares names, from the roots on."""
        matching = cls(message, {}, {0: "(root)"})
        waiting = deque([(0, root)])
        while waiting:
            number, item = waiting.popleft()
            if number in matching.found:
                continue
            matching.found[number] = item
            own = children(item)
            for reference in message.nodes[number].children:
                label = f"{matching.names[number]}.{reference.local_name}"
                matching.names.setdefault(reference.node_id, label)
                if reference.local_name in own:
                    waiting.append((reference.node_id, own[reference.local_name]))
        matching._name_the_rest()
        matching._match_slots()
        return matching

    def _name_the_rest(self) -> None:
        waiting = deque(self.names)
        while waiting:
            number = waiting.popleft()
            for reference in self.message.nodes[number].children:
                if reference.node_id not in self.names:
                    label = f"{self.names[number]}.{reference.local_name}"
                    self.names[reference.node_id] = label
                    waiting.append(reference.node_id)

    def _match_slots(self) -> None:
        for number, node in enumerate(self.message.nodes):
            for reference in node.slot_variables:
                primary = reference.original_variable_node_id
                owner = self.names.get(number, "")
                label = f"{owner}'s state '{reference.slot_name}' for {self.names.get(primary)}"
                self.names.setdefault(reference.slot_variable_node_id, label)
                optimizer = self.found.get(number)
                if not isinstance(optimizer, Optimizer) or primary not in self.found:
                    continue
                slot = optimizer._slots.get(self.found[primary], reference.slot_name)
                if slot is not None:
                    self.found[reference.slot_variable_node_id] = slot

    def variables(self) -> dict[str, Variable]:
        """The variables that get a value, by the names of their tensors in the checkpoint."""
        return {
            attribute.checkpoint_key: self.found[number]
            for number, node in enumerate(self.message.nodes)
            for attribute in node.attributes
            if isinstance(self.found.get(number), Variable) and attribute.name == _VALUE
        }


def _escaped(name: str) -> str:
    return name.replace(".", "..").replace("/", ".S")
