"""Assertions about protobuf messages and GraphDefs."""

from __future__ import annotations

import unittest
from typing import Any

from google.protobuf import text_format

from sparkflow_runtime.protos.graph_pb2 import GraphDef


def assert_proto_equal(
    case: unittest.TestCase, expected: Any, message: Any, msg: str | None = None
) -> None:
    """Passes when `message` equals `expected`, a message or protobuf's text format."""
    if isinstance(expected, str | bytes):
        wanted = type(message)()
        text_format.Merge(expected, wanted)
    elif type(expected) is type(message):
        wanted = expected
    else:
        case.fail(f"Can't compare protos of type {type(expected)} and {type(message)}. {msg or ''}")
    if wanted != message:
        case.assertMultiLineEqual(_text(wanted), _text(message), msg)


def _text(message: Any) -> str:
    return text_format.MessageToString(message, use_index_order=False)


def assert_equal_graph_def(
    actual: GraphDef,
    expected: GraphDef,
    checkpoint_v2: bool = False,
    hash_table_shared_name: bool = False,
) -> None:
    """Passes when two graphs have equal nodes, in whatever order.

    Args:
        actual: A graph.
        expected: The graph it should be.
        checkpoint_v2: Leave temporary names of checkpoints (`_temp_...`) out of the comparison.
        hash_table_shared_name: Leave the generated names of hash tables out of it.

    Raises:
        TypeError: One is no GraphDef.
        AssertionError: They differ; the text shows the nodes that do.
    """
    for each in (actual, expected):
        if not isinstance(each, GraphDef):
            raise TypeError(f"assert_equal_graph_def compares GraphDefs, got {type(each).__name__}")
    found, wanted = (
        {node.name: _stripped(node, checkpoint_v2, hash_table_shared_name) for node in graph.node}
        for graph in (actual, expected)
    )
    missing, extra = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    lines = [f"missing nodes: {missing}"] * bool(missing) + [f"extra nodes: {extra}"] * bool(extra)
    lines += [
        f"node {name} differs:\n{found[name]}instead of\n{wanted[name]}"
        for name in wanted.keys() & found.keys()
        if found[name] != wanted[name]
    ]
    if lines:
        raise AssertionError("\n".join(lines))


def _stripped(node: Any, checkpoint_v2: bool, hash_table_shared_name: bool) -> Any:
    copy = type(node)()
    copy.CopyFrom(node)
    # Control inputs have no order.
    plain = [name for name in copy.input if not name.startswith("^")]
    control = sorted(name for name in copy.input if name.startswith("^"))
    copy.ClearField("input")
    copy.input.extend([*plain, *control])
    if (
        checkpoint_v2
        and copy.op == "Const"
        and any(b"_temp" in text for text in copy.attr["value"].tensor.string_val)
    ):
        copy.attr["value"].tensor.string_val[:] = []
    if hash_table_shared_name and copy.op in ("HashTable", "HashTableV2"):
        copy.attr.pop("shared_name", None)
    return copy
