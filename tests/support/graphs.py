"""Creates graph nodes concisely, for tests of passes, masters and workers without the front end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ir.graph_def import export_graph
from sparkflow_runtime.ir.node import Node, parse_endpoint
from sparkflow_runtime.ops import (
    all as _all_ops,  # noqa: F401  (registers every op)
    registry,
)
from sparkflow_runtime.ops.signature import REQUIRED
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.shapes import Shape


def node(
    name: str, op: str, *inputs: str, after: Sequence[str] = (), device: str = "", **attrs: Any
) -> Node:
    """A node of any registered op.

    Args:
        name: Its name.
        op: The op type.
        *inputs: Tensors, `node:slot` or `node`.
        after: Names of the nodes to wait for.
        device: Requested device.
        **attrs: Attributes; types are float32 by default, others have their own defaults.
    """
    signature = registry.lookup(op).signature
    for key, attr in signature.attrs.items():
        if attr.kind == "type" and attr.default is REQUIRED:
            attrs.setdefault(key, dtypes.float32)
    endpoints = tuple(map(parse_endpoint, inputs))
    return Node(name, op, endpoints, tuple(after), device, signature.read_attrs(attrs))


def const(
    name: str,
    value: Any,
    dtype: DType = dtypes.float32,
    *,
    after: Sequence[str] = (),
    device: str = "",
) -> Node:
    """A constant."""
    array = np.asarray(value, dtype.as_numpy_dtype)
    return node(name, "Const", after=after, device=device, dtype=dtype, value=array)


def placeholder(
    name: str, shape: Shape = None, dtype: DType = dtypes.float32, *, device: str = ""
) -> Node:
    """A tensor that must be fed."""
    return node(name, "Placeholder", device=device, dtype=dtype, shape=shape)


def variable(
    name: str, shape: Shape = (), dtype: DType = dtypes.float32, *, device: str = "", **attrs: Any
) -> Node:
    """A variable; `node(f"{name}/init", "Assign", name, ...)` initialises it."""
    return node(name, "VariableV2", device=device, dtype=dtype, shape=shape, **attrs)


def graph_def(*nodes: Node) -> GraphDef:
    """The nodes as a client sends them."""
    return export_graph(nodes)
