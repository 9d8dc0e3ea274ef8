"""Converts convolutions on CPUs from channels first to channels last.

CPU kernels use channels last and transpose other inputs and outputs. Here a convolution and its
neighbourhood are converted to channels last, and only the tensors that enter or leave that part of
the graph are transposed.

A converted node is renamed `name/channels_last`, and the transpose back gets its name, so every
tensor keeps its meaning; unread tensors are not transposed back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ir.effects import is_reference, without_dead
from sparkflow_runtime.ir.graph import Graph, predecessors
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ir.types import Types
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op

_TO_LAST: Final = (0, 2, 3, 1)
_TO_FIRST: Final = (0, 3, 1, 2)
_CPU: Final = "/device:CPU:"


def channels_last(graph: Graph, types: Types, keep: Collection[str] = ()) -> Graph:
    """Returns the graph with images in the CPU kernels' layout; the same object if unchanged.

    Args:
        graph: Placed.
        types: What is known of its tensors; elementwise ops are converted if ranks are known. It
            stays valid for tensors that stay.
        keep: Names of nodes that must stay: the targets of the step.
    """
    rewriting = _Rewriting(graph, types)
    for node in graph.sorted():
        rewriting.visit(node)
    if not rewriting.takes_over:
        return graph
    once_read = {name for node in graph for name in predecessors(node)}
    once_read.update(node.name for node in rewriting.nodes if node.name not in graph)
    return Graph(without_dead(rewriting.nodes, once_read, keep))


def _is_first(node: Node) -> bool:
    return node.attrs.get("data_format") == "NCHW" and _CPU in node.device


class _Rewriting:
    def __init__(self, graph: Graph, types: Types) -> None:
        self.nodes: list[Node] = []
        self.takes_over = False
        self._graph = graph
        self._types = types
        self._last: dict[Endpoint, Endpoint] = {}
        self._moved: dict[Endpoint, Endpoint] = {}
        self._renamed: dict[str, str] = {}
        self._constants: dict[tuple[str, tuple[int, ...]], Endpoint] = {}

    def visit(self, node: Node) -> None:
        """Processes the next node in execution order."""
        inputs = tuple(self._moved.get(endpoint, endpoint) for endpoint in node.inputs)
        control = tuple(self._renamed.get(name, name) for name in node.control_inputs)
        node = Node(node.name, node.op, inputs, control, node.device, node.attrs)
        op = registry.lookup(node.op)
        images = op.images
        if self._reads_references(node, op):
            self.nodes.append(node)  # a transpose before it would read the variable earlier
        elif images is not None and _is_first(node) and self._are_images(node, op):
            self._take_over(node, images.inputs, images.sizes, images.is_output)
        elif (op.elementwise or op.passes_on) and self._follows(op, node):
            self._take_over(node, [i for i, each in enumerate(inputs) if self._rank(each) == 4])
        else:
            self.nodes.append(node)

    def _reads_references(self, node: Node, op: Op) -> bool:
        """Whether a transpose would be the reader of a variable."""
        images = op.images
        places = range(len(node.inputs)) if images is None else images.inputs
        if images is not None and images.sizes is not None:
            places = (*places, images.sizes)
        read = [node.inputs[place] for place in places]
        return any(e.node in self._graph and is_reference(self._graph.nodes, e) for e in read)

    def _are_images(self, node: Node, op: Op) -> bool:
        """Whether the input is a convolution's images: BiasAdd and others accept any rank."""
        images = op.images
        return images is not None and (
            images.is_convolution
            or all(self._rank(node.inputs[index]) == 4 for index in images.inputs)
        )

    def _follows(self, op: Op, node: Node) -> bool:
        """Whether an op can use existing channels-last images, and nothing prevents it."""
        if _CPU not in node.device or not any(each in self._last for each in node.inputs):
            return False
        if op.stateful or len(op.signature.output_dtypes(node.attrs)) != 1:
            return False
        if self._rank(Endpoint(node.name, 0)) not in (None, 4):
            return False
        return all(self._rank(each) in (0, 4) for each in node.inputs)

    def _rank(self, endpoint: Endpoint) -> int | None:
        producer = self._graph.nodes.get(endpoint.node)
        if producer is not None and producer.op == "Const":
            rank: int = producer.attrs["value"].ndim
            return rank
        found = self._types.get(endpoint)
        return None if found is None or found.shape is None else len(found.shape)

    def _take_over(
        self,
        node: Node,
        places: Sequence[int],
        sizes: int | None = None,
        is_output: bool = True,
    ) -> None:
        """Adds the node with channels last; for arguments see `ops.images.Images`."""
        self.takes_over = True
        inputs = list(node.inputs)
        for index in places:
            inputs[index] = self._with_channels_last(inputs[index], node)
        if sizes is not None:
            inputs[sizes] = self._sizes(inputs[sizes], node)
        attrs = _permuted(node.attrs) if "data_format" in node.attrs else node.attrs
        if not is_output:
            made = Node(node.name, node.op, tuple(inputs), node.control_inputs, node.device, attrs)
            self.nodes.append(made)
            return
        name = self._free(f"{node.name}/channels_last")
        self.nodes.append(
            Node(name, node.op, tuple(inputs), node.control_inputs, node.device, attrs)
        )
        outputs = registry.lookup(node.op).signature.output_dtypes(node.attrs)
        for slot in range(1, len(outputs)):
            self._moved[Endpoint(node.name, slot)] = Endpoint(name, slot)
        image = Endpoint(name, 0)
        self._renamed[node.name] = name
        self._last[Endpoint(node.name, 0)] = image
        self.nodes.append(self._transpose(node.name, image, _TO_FIRST, outputs[0], node))

    def _with_channels_last(self, endpoint: Endpoint, node: Node) -> Endpoint:
        found = self._last.get(endpoint)
        if found is None:
            producer = self._graph[endpoint.node]
            signature = registry.lookup(producer.op).signature
            dtype = signature.output_dtypes(producer.attrs)[endpoint.slot].base
            name = self._free(f"{endpoint.node}/channels_last_{endpoint.slot}")
            self.nodes.append(self._transpose(name, endpoint, _TO_LAST, dtype, node))
            found = self._last[endpoint] = Endpoint(name, 0)
        return found

    def _transpose(
        self, name: str, endpoint: Endpoint, order: tuple[int, ...], dtype: DType, beside: Node
    ) -> Node:
        attrs: dict[str, Any] = {"T": dtype, "Tperm": dtypes.int32}
        inputs = (endpoint, self._constant(order, beside))
        return Node(name, "Transpose", inputs, (), beside.device, {**_private(beside), **attrs})

    def _sizes(self, endpoint: Endpoint, node: Node) -> Endpoint:
        """Returns the channels-last shape of an image from the channels-first shape."""
        producer = self._graph.nodes.get(endpoint.node)
        if producer is not None and producer.op == "Const" and not producer.control_inputs:
            value = producer.attrs["value"]
            return self._constant(tuple(value[list(_TO_LAST)].tolist()), node, value.dtype)
        assert producer is not None
        dtype = registry.lookup(producer.op).signature.output_dtypes(producer.attrs)[0].base
        order, axis = self._constant(_TO_LAST, node), self._constant(0, node)
        name = self._free(f"{node.name}/sizes")
        kinds = {"Tparams": dtype, "Tindices": dtypes.int32, "Taxis": dtypes.int32}
        attrs = registry.lookup("GatherV2").signature.read_attrs({**_private(node), **kinds})
        self.nodes.append(Node(name, "GatherV2", (endpoint, order, axis), (), node.device, attrs))
        return Endpoint(name, 0)

    def _constant(
        self, value: tuple[int, ...] | int, beside: Node, dtype: Any = np.int32
    ) -> Endpoint:
        array = np.array(value, dtype)
        key = (beside.device, (*array.shape, *array.reshape(-1).tolist(), array.itemsize))
        if key not in self._constants:
            name = self._free(f"channels_last/{len(self._constants)}")
            attrs = {"value": array, "dtype": dtypes.as_dtype(array.dtype)}
            self.nodes.append(Node(name, "Const", (), (), beside.device, attrs))
            self._constants[key] = Endpoint(name, 0)
        return self._constants[key]

    def _free(self, name: str) -> str:
        while name in self._graph:
            name += "_"
        return name


def _private(node: Node) -> dict[str, Any]:
    return {name: value for name, value in node.attrs.items() if name.startswith("_")}


def _permuted(attrs: Any) -> dict[str, Any]:
    """Returns the attributes of an image op for channels last."""
    changed = {**attrs, "data_format": "NHWC"}
    for name in ("strides", "ksize", "dilations"):
        if name in attrs:
            changed[name] = _picked(attrs[name], 1)
    if attrs.get("explicit_paddings"):
        changed["explicit_paddings"] = _picked(attrs["explicit_paddings"], 2)
    return changed


def _picked(values: Sequence[int], each: int) -> list[int]:
    return [values[axis * each + i] for axis in _TO_LAST for i in range(each)]
