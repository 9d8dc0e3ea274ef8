"""Where a graph turns texts into numbers: what ONNX cannot do and is done before.

ONNX has no hashes and no crosses of texts. A node that reads texts and gives numbers is a border:
its results are inputs of the converted model; what lies before it is run by `onnx_feeds`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkflow.export.freeze import prune_graph
from sparkflow.export.predictor import Predictor
from sparkflow.export.signature import Exported, Output, Signature, part_names
from sparkflow.export.values import feed_arrays
from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.graph import Graph
from sparkflow.graph.messages.importing import import_graph_def
from sparkflow.graph.nodes.reach import ALL
from sparkflow_runtime import dtypes
from sparkflow_runtime.protos.graph_pb2 import GraphDef


@dataclass(frozen=True, slots=True)
class TextInput:
    """An input of the converted model that is made of texts.

    Attributes:
        name: What it is called.
        tensors: The equal tensors of the graph that it stands for.
        op: The op that makes it.
        attributes: Of the op, as JSON can hold them.
        texts: The inputs of the model that it is made of.
    """

    name: str
    tensors: tuple[str, ...]
    op: str
    attributes: Mapping[str, Any]
    texts: tuple[str, ...]


def text_inputs(graph: Graph, signature: Signature) -> list[TextInput]:
    """The borders between texts and numbers that the outputs of a model need."""
    fed = set(signature.feeds)
    of_tensor = {tensor: each.name for each in signature.inputs for tensor in each.tensors}
    found: dict[tuple[int, int], list[Any]] = {}
    origins = _Origins(fed)
    for op in _read(graph, signature.fetches, fed):
        if not _is_border(op):
            continue
        for place, tensor in enumerate(op.outputs):
            found.setdefault((origins.of(op)[0], place), []).append(tensor)
    names: set[str] = set()
    result = []
    for (_, place), tensors in found.items():
        op = tensors[0].op
        texts = tuple(sorted({of_tensor[name] for name in origins.of(op)[1]}))
        base = f"{'+'.join(texts)}/{op.type}"
        stem, number = base, 0
        suffix = f"/{place}" if len(op.outputs) > 1 else ""
        while stem + suffix in names:
            number += 1
            stem = f"{base}_{number}"
        names.add(stem + suffix)
        attrs = op.node_def.attr
        attributes = {key: attrs[key].i for key in ("num_buckets", "hash_key") if key in attrs}
        listed = tuple(tensor.name for tensor in tensors)
        result.append(TextInput(stem + suffix, listed, op.type, attributes, texts))
    return result


def onnx_feeds(model: Exported, values: Any) -> dict[str, np.ndarray[Any, Any]]:
    """What a session of ONNX is fed for some rows, by the names of the converted model's inputs.

    Args:
        model: The model.
        values: As `InferenceModel.predict` takes them.

    Raises:
        InvalidArgumentError: As `InferenceModel.predict`.
    """
    graph = graph_of_model(model)
    signature = model.signature
    arrays, _ = feed_arrays(signature, values)
    names = [name for each in signature.inputs for name in part_names(each)]
    found = {
        name: array for name, array in zip(names, arrays, strict=True) if array.dtype != object
    }
    made = text_inputs(graph, signature)
    if made:
        outputs = tuple(Output(each.name, each.tensors[0], "", ()) for each in made)
        before = _Before(model, Signature(signature.inputs, outputs, signature.named))
        predictor = Predictor(before)
        try:
            found.update(predictor.run(arrays))
        finally:
            predictor.close()
    return found


def graph_of_model(model: Exported) -> Graph:
    """The frozen graph of a model."""
    graph = Graph()
    with graph.as_default():
        import_graph_def(model.to_graph_def(frozen=True), name="", allowed_ops=ALL)
    return graph


class _Before:
    """The part of a model that is run before the converted one."""

    def __init__(self, model: Exported, signature: Signature) -> None:
        wanted = [*signature.feeds, *signature.fetches]
        self.graph_def = prune_graph(model.to_graph_def(frozen=True), wanted)
        self.variables: Mapping[str, Any] = {}
        self.signature = signature
        self.extra: Mapping[str, Any] = {}

    def to_graph_def(self, frozen: bool = True) -> GraphDef:
        """The graph, which has no variables."""
        return self.graph_def


def _read(graph: Graph, fetches: Sequence[str], fed: Collection[str]) -> Iterator[Any]:
    """The operations before the fetches, in the order of the graph; borders are not passed."""
    seen: set[Any] = set()
    waiting = [graph.get_tensor_by_name(name).op for name in fetches]
    while waiting:
        op = waiting.pop()
        if op in seen or all(each.name in fed for each in op.outputs):
            continue
        seen.add(op)
        if not _is_border(op):
            waiting += [tensor.op for tensor in op.inputs]
    return (op for op in graph.get_operations() if op in seen)


def _is_border(op: Any) -> bool:
    given = [tensor.dtype for tensor in op.inputs]
    if any(dtype.is_ref or dtype is dtypes.resource for dtype in given):
        return False  # a lookup table, which nobody fills before
    return dtypes.string in given and not any(map(_is_text, op.outputs))


def _is_text(tensor: Any) -> bool:
    return tensor.dtype.base_dtype is dtypes.string


class _Origins:
    """What operations are computed from.

    Args:
        fed: The names of the tensors that are fed.
    """

    def __init__(self, fed: Collection[str]) -> None:
        self._fed = fed
        self._numbers: dict[Any, int] = {}
        self._found: dict[Any, tuple[int, frozenset[str]]] = {}

    def of(self, op: Any) -> tuple[int, frozenset[str]]:
        """A number, the same for operations that compute the same, and the fed texts it is of."""
        waiting, entered = [op], set[Any]()
        while waiting:
            each = waiting[-1]
            entered.add(each)  # in a loop, it comes before itself
            before = (given for given in self._before(each) if given not in entered)
            missing = [given for given in before if given not in self._found]
            waiting += missing
            if not missing:
                self._found[waiting.pop()] = self._computed(each)
        return self._found[op]

    def _before(self, op: Any) -> list[Any]:
        return [tensor.op for tensor in op.inputs if tensor.name not in self._fed]

    def _computed(self, op: Any) -> tuple[int, frozenset[str]]:
        parts, texts = [], set[str]()
        for tensor in op.inputs:
            if tensor.name in self._fed:
                parts.append((tensor.name, 0))
                texts |= {tensor.name} if _is_text(tensor) else set()
            else:
                number, before = self._found.get(tensor.op, (-1, frozenset()))
                parts.append((number, tensor.value_index))
                texts |= before
        key = (op.type, _attributes(op), tuple(parts))
        return self._numbers.setdefault(key, len(self._numbers)), frozenset(texts)


def _attributes(op: Any) -> Any:
    value = constant_value(op.outputs[0]) if op.type == "Const" else None
    if value is not None:
        return (value.dtype.str, value.shape, tuple(np.ravel(value).tolist()))
    return tuple(
        (key, value.SerializeToString(deterministic=True))
        for key, value in sorted(op.node_def.attr.items())
        if not key.startswith("_")  # where it was made, and beside what
    )
