"""Random graphs give the same on three devices as on one, step after step, and always end."""

import random
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.compiler.program import compile_partition
from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.errors import CancelledError
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.master.pipeline import Request, optimise
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.passes.partitioning import bundles as bundles_module
from sparkflow_runtime.passes.partitioning.partition import Partition
from sparkflow_runtime.passes.place import Placement
from sparkflow_runtime.rendezvous.table import StepRendezvous
from sparkflow_runtime.resources.container import Resources
from sparkflow_runtime.transport.peers import Peers
from sparkflow_runtime.worker.loop import LoopUpdate, run_loop
from sparkflow_runtime.worker.step import Step
from support.graphs import const, node, placeholder, variable

TASK = "/job:w/replica:0/task:0"
DEVICES = [f"{TASK}/device:CPU:{index}" for index in range(3)]
STEPS = 4
DEADLINE_S = 30
INT = {"T": dtypes.int64}


def random_graph(rng: random.Random) -> tuple[list[Node], Request]:
    """Integer arithmetic, and variables with a fixed order of reads and updates each."""
    nodes: list[Node] = []
    tensors: list[str] = []
    variables: list[tuple[str, str]] = []  # name, and the node that last used it

    def device() -> str:
        return rng.choice([*DEVICES, *DEVICES, ""])

    def add(made: Node, gives: bool = True) -> None:
        nodes.append(made)
        if gives:
            tensors.append(made.name)

    for index in range(rng.randint(1, 3)):
        add(placeholder(f"x{index}", (2,), dtypes.int64, device=device()))
    for index in range(rng.randint(0, 3)):
        add(const(f"c{index}", [index, 7], dtypes.int64, device=device()))
    for index in range(rng.randint(0, 3)):
        where = device()
        add(variable(f"v{index}", (2,), dtypes.int64, device=where), gives=False)
        zero = const(f"v{index}/zero", [0, 0], dtypes.int64)
        init = node(f"v{index}/init", "Assign", f"v{index}", zero.name, device=where, **INT)
        add(zero, gives=False)
        add(init, gives=False)
        variables.append((f"v{index}", init.name))
    for index in range(rng.randint(5, 40)):
        kind = rng.choice(["add", "mul", "neg", "unpack", "wait", "read", "update", "update"])
        after = [rng.choice(tensors)] if rng.random() < 0.2 else []
        a, b = rng.choice(tensors), rng.choice(tensors)
        name = f"n{index}"
        if kind in ("read", "update") and variables:
            which = rng.randrange(len(variables))
            owner, last = variables[which]
            after = [last, *after]
            if kind == "read":
                add(node(name, "Identity", owner, after=after, device=device(), **INT))
            else:
                op = rng.choice(["AssignAdd", "AssignSub"])
                add(node(name, op, owner, a, after=after, **INT), gives=False)
            variables[which] = (owner, name)
        elif kind == "neg":
            add(node(name, "Neg", a, after=after, device=device(), **INT))
        elif kind == "mul":
            add(node(name, "Mul", a, b, after=after, device=device(), **INT))
        elif kind == "unpack":
            where = device()
            add(node(f"{name}/p", "Unpack", a, device=where, num=2, **INT), gives=False)
            add(node(name, "Pack", f"{name}/p:1", f"{name}/p", device=device(), N=2, **INT))
        elif kind == "wait":
            add(node(f"{name}/w", "NoOp", after=[a, b], device=device()), gives=False)
            add(node(name, "Identity", b, after=[f"{name}/w"], device=device(), **INT))
        else:
            add(node(name, "AddV2", a, b, after=after, device=device(), **INT))
    fed = [n for n in tensors if n.startswith("x") or rng.random() < 0.03]
    request = Request(
        tuple(Endpoint(name, 0) for name in fed),
        tuple(Endpoint(name, 0) for name in rng.sample(tensors, min(len(tensors), 6))),
        tuple(last for _, last in variables),
    )
    return nodes, request


def run(parts: Sequence[Partition], request: Request, args: Sequence[Any]) -> list[np.ndarray]:
    """Returns the fetches of every step; all partitions run their loops in separate threads."""
    resources = Resources()
    rendezvous = StepRendezvous()
    results: list[Any] = [None] * len(request.fetches)
    errors: list[BaseException] = []

    def loop(part: Partition) -> None:
        context = KernelContext(np, "CPU", part.device, resources, Resources())
        program = compile_partition(part.nodes, context)
        step = Step(1, rendezvous, Peers({}).receiver(1), TASK, STEPS)
        updates: list[LoopUpdate] = []
        try:
            given = [args[index] for index in program.args]
            end = run_loop(program, step, given, updates.append, rendezvous)
            assert end.num_steps == STEPS
        except BaseException as error:
            errors.append(error)
            rendezvous.abort(error)
        for place, index in enumerate(program.results):
            results[index] = np.concatenate([update.values[place] for update in updates])

    threads = [threading.Thread(target=loop, args=(part,), daemon=True) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    stuck = any(thread.is_alive() for thread in threads)
    rendezvous.abort(CancelledError(message="too late"))
    assert not stuck, "the partitions wait for each other"
    if errors:
        raise errors[0]
    return results


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("copied_bytes", [0, 1 << 16])
@pytest.mark.parametrize("seed", range(60))
def test_three_devices_give_what_one_gives(
    seed: int, copied_bytes: int, is_split: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles_module, "LEAST_PART_BYTES", 16)
    monkeypatch.setattr(bundles_module, "MAX_COPIED_CONSTANT_BYTES", copied_bytes)
    rng = random.Random(seed)
    nodes, request = random_graph(rng)
    args = [np.array([rng.randint(-9, 9), rng.randint(-9, 9)]) for _ in request.feeds]
    specs = [DeviceSpec.from_string(name) for name in DEVICES]
    apart = optimise(Graph(nodes), request, Placement(specs), is_split=lambda *_: is_split)
    together = optimise(
        Graph(Node(n.name, n.op, n.inputs, n.control_inputs, "", n.attrs) for n in nodes),
        request,
        Placement(specs[:1]),
    )
    assert len(together) <= 1
    for given, expected in zip(
        run(apart, request, args), run(together, request, args), strict=True
    ):
        np.testing.assert_array_equal(given, expected, strict=True)
