"""Graphs damaged in transit only run or fail with a status."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import Code, OpError, to_status
from sparkflow_runtime.master.client import open_session
from sparkflow_runtime.ops import registry
from sparkflow_runtime.protos.config_pb2 import RunOptions
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef
from sparkflow_runtime.tensor_proto import export_tensor
from support.graphs import const, graph_def, node, placeholder, variable

GRAPH = graph_def(
    placeholder("x", (2,)),
    variable("v", (2,)),
    const("one", [1, 1]),
    const("axis", [0], dtypes.int32),
    const("text", b"abc", dtypes.string),
    node("init", "Assign", "v", "one"),
    node("add", "AssignAdd", "v", "x"),
    node("read", "Identity", "v"),
    node("parts", "Unpack", "read", num=2),
    node("sum", "Sum", "read", "axis"),
    node("pack", "Pack", "parts", "parts:1", N=2),
)
FETCHES = [["add:0", "sum:0", "pack:0", "text:0"], ["pack:0"], ["sum:0", "one:0"]]
CONTROL_FLOW = graph_def(
    placeholder("x", (2,)),
    variable("v", (2,)),
    const("one", [1, 1]),
    const("half", [0.5, 0.5]),
    node("init", "Assign", "v", "one"),
    node("axis", "Const", dtype=dtypes.int32, value=np.int32([0])),
    node("sum", "Sum", "x", "axis"),
    const("limit", 9),
    node("few", "Less", "sum", "limit"),
    node("either", "Switch", "x", "few"),
    node("then", "Neg", "either:1"),
    node("else", "Exp", "either"),
    node("joined", "Merge", "else", "then", N=2),
    node("enter", "Enter", "half", frame_name="loop"),
    node("bound", "Enter", "limit", frame_name="loop", is_constant=True),
    node("across", "Enter", "axis", T=dtypes.int32, frame_name="loop", is_constant=True),
    node("again", "Merge", "enter", "next", N=2),
    node("size", "Sum", "again", "across"),
    node("goes_on", "LoopCond", "is_small"),
    node("is_small", "Less", "size", "bound"),
    node("turn", "Switch", "again", "goes_on"),
    node("left", "Exit", "turn"),
    node("body", "Identity", "turn:1"),
    node("more", "Add", "body", "body"),
    node("next", "NextIteration", "more"),
)
CONTROL_FLOW_FETCHES = [["joined:0", "joined:1", "left:0"], ["left:0"], ["joined:0", "sum:0"]]
# These create arrays of any requested size; a damaged size must not fill the test machine's memory.
GREEDY = {"Fill", "Range", "LinSpace", "Tile", "OneHot", "BroadcastTo", "Pad", "PadV2", "MirrorPad"}
GREEDY |= {"RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt"}
OPS = [op.op_type for op in registry.all_ops() if op.op_type not in GREEDY]


def retype(rng: random.Random, proto: NodeDef, names: list[str]) -> None:
    if not proto.attr:
        return
    attr = proto.attr[rng.choice(sorted(proto.attr))]
    attr.Clear()
    kind = rng.randrange(8)
    if kind == 0:
        attr.type = rng.choice([0, 1, 2, 3, 7, 9, 10, 14, 20, 101, 999])  # type: ignore[assignment]
    elif kind == 1:
        attr.i = rng.choice([0, -1, 1 << 62, -(1 << 63), 3])
    elif kind == 2:
        attr.s = rng.choice([b"", b"\xff\xfe", b"x" * 1000])
    elif kind == 3:
        attr.f = rng.choice([float("nan"), float("inf"), 1e38])
    elif kind == 4:
        attr.shape.dim.add(size=rng.choice([-1, -5, 0, 1 << 40, 2]))
    elif kind == 5:
        attr.list.i.extend([1, 2])
    elif kind == 6:
        array = np.zeros(rng.randrange(4), rng.choice(["f4", "i8", "?", "c8"]))
        attr.tensor.CopyFrom(export_tensor(array))
    else:
        attr.b = True


def rewire(rng: random.Random, proto: NodeDef, names: list[str]) -> None:
    text = rng.choice([*names, *(f"^{name}" for name in names), "sum:7", "", "gone", "pack:-1"])
    if proto.input and rng.random() < 0.5:
        proto.input[rng.randrange(len(proto.input))] = text
    else:
        proto.input.append(text)


def cut(rng: random.Random, proto: NodeDef, names: list[str]) -> None:
    if proto.input and rng.random() < 0.5:
        del proto.input[rng.randrange(len(proto.input))]
    elif proto.attr:
        del proto.attr[rng.choice(sorted(proto.attr))]


def rename(rng: random.Random, proto: NodeDef, names: list[str]) -> None:
    proto.name = rng.choice([*names, "", "a b", "^x", "x:0"])


def replace(rng: random.Random, proto: NodeDef, names: list[str]) -> None:
    proto.op = rng.choice([*OPS, "Nonsense", ""])


def move(rng: random.Random, proto: NodeDef, names: list[str]) -> None:
    proto.device = rng.choice(["/job:x", "/gpu:0", "junk", "/task:" + "9" * 50, "/cpu:0"])


DAMAGES: list[Callable[[random.Random, Any, list[str]], None]] = [
    retype,
    rewire,
    cut,
    rename,
    replace,
    move,
]


def damaged(rng: random.Random, whole: GraphDef) -> GraphDef:
    graph = GraphDef()
    graph.CopyFrom(whole)
    names = [proto.name for proto in graph.node]
    for _ in range(rng.choice([1, 1, 1, 2])):
        rng.choice(DAMAGES)(rng, rng.choice(graph.node), names)
    if rng.random() < 0.1:
        graph.node.append(rng.choice(graph.node))
    return graph


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("graph", "fetches"),
    [(GRAPH, FETCHES), (CONTROL_FLOW, CONTROL_FLOW_FETCHES)],
    ids=["straight", "control_flow"],
)
def test_damaged_graphs_run_or_are_refused(
    graph: GraphDef, fetches: list[list[str]], seed: int
) -> None:
    rng = random.Random(seed)
    ran, codes = 0, []
    for _ in range(150):
        session = open_session()
        try:
            session.extend(damaged(rng, graph))
            session.run([], {}, ["init"])
            for names in fetches:
                # A damaged loop may never end.
                options = RunOptions(timeout_in_ms=300)
                session.run(names, {"x:0": np.float32([1, 2])}, [], options)
                ran += 1
        except OpError as error:
            codes.append(to_status(error)[0])
        finally:
            session.close()
    assert ran > 20
    assert len(codes) > 10
    assert not {Code.UNKNOWN, Code.INTERNAL} & set(codes)
