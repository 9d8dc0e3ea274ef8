"""A worker that reads parameters in place on the server trains like a single process."""

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.master.client import open_session
from sparkflow_runtime.master.session import MasterSession
from sparkflow_runtime.passes.partitioning import bundles
from sparkflow_runtime.testing.local_cluster import LocalCluster
from sparkflow_runtime.worker.loop import LoopTerms
from support.graphs import const, graph_def, node, variable

STEPS = 40
LAYERS = 3
SHAPE = (64, 64)


def program(server: str, worker: str) -> list[Any]:
    """Layers with weights of 16 KB, each read twice: in the forward and the backward pass."""
    generator = np.random.default_rng(3)
    start = generator.standard_normal(SHAPE) / 8
    nodes = [
        const("x", generator.standard_normal(SHAPE), device=worker),
        const("rate", 0.01, device=server),
    ]
    last = "x"
    for i in range(LAYERS):
        nodes += [
            variable(f"w{i}", SHAPE, device=server),
            const(f"w{i}/start", start + i / 50, device=server),
            node(f"w{i}/init", "Assign", f"w{i}", f"w{i}/start", device=server),
            node(f"w{i}/read", "Identity", f"w{i}", device=server),
            node(f"y{i}", "MatMul", last, f"w{i}/read", device=worker),
            node(f"h{i}", "Tanh", f"y{i}", device=worker),
        ]
        last = f"h{i}"
    nodes.append(
        node("loss", "Mean", last, "axes", device=worker, Tidx=dtypes.int32, keep_dims=False)
    )
    nodes.append(const("axes", [0, 1], dtypes.int32, device=worker))
    back = last
    for i in reversed(range(LAYERS)):
        before = f"h{i - 1}" if i else "x"
        nodes += [
            node(f"g{i}", "MatMul", before, back, device=worker, transpose_a=True),
            node(f"back{i}", "MatMul", back, f"w{i}/read", device=worker, transpose_b=True),
            node(f"train{i}", "ApplyGradientDescent", f"w{i}", "rate", f"g{i}", device=server),
        ]
        back = f"back{i}"
    return nodes


def train(target: str, server: str = "", worker: str = "") -> list[Any]:
    """Returns the losses of all steps, and the weights after them."""
    client = open_session(target)
    client.extend(graph_def(*program(server, worker)))
    client.run([], {}, [f"w{i}/init" for i in range(LAYERS)])
    targets = [f"train{i}" for i in range(LAYERS)]
    loop = client.start_loop(["loss:0"], {}, targets, LoopTerms(num_steps=STEPS))
    losses = np.concatenate([update.values[0] for update in loop.updates()])
    weights, _ = client.run([f"w{i}/read:0" for i in range(LAYERS)], {}, [])
    client.close()
    assert len(losses) == STEPS
    return [losses, *weights]


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    return train("")


@pytest.mark.parametrize("processes", [False, True])
def test_training_in_a_cluster_gives_what_one_process_gives(
    processes: bool, expected: list[Any]
) -> None:
    with LocalCluster(1, 1, processes=processes) as cluster:
        for found, right in zip(
            train(cluster.target("worker", 0), "/job:ps", "/job:worker"), expected, strict=True
        ):
            np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


def test_so_it_does_with_gradients_that_leave_early(
    expected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then what precedes the first early gradient is lent."""
    monkeypatch.setattr(bundles, "LEAST_PART_BYTES", 1)
    monkeypatch.setattr(MasterSession, "_are_apart", lambda self, source, destination: True)
    with LocalCluster(1, 1) as cluster:
        for found, right in zip(
            train(cluster.target("worker", 0), "/job:ps", "/job:worker"), expected, strict=True
        ):
            np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)
