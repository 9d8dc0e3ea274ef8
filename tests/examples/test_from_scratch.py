"""The whole idea in one file: its gradients, its cut, and training inside of Spark."""

import importlib.util
import queue
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "from_scratch.py"


@pytest.fixture(scope="module")
def scratch() -> Any:
    spec = importlib.util.spec_from_file_location("from_scratch", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["from_scratch"] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def network(scratch: Any) -> Any:
    """A loss over two layers, its four variables and the feeds of one batch."""
    random = np.random.default_rng(7)
    sizes = {"w1": (6, 5), "b1": (5,), "w2": (5, 3), "b2": (3,)}
    variables = {
        name: scratch.variable(name, random.normal(size=size)) for name, size in sizes.items()
    }
    hidden = scratch.tanh(scratch.placeholder("x") @ variables["w1"] + variables["b1"])
    logits = hidden @ variables["w2"] + variables["b2"]
    loss = scratch.cross_entropy(logits, scratch.placeholder("labels"))
    labels = np.eye(3, dtype=np.float32)[random.integers(0, 3, 4)]
    feeds = {"x": random.normal(size=(4, 6)).astype(np.float32), "labels": labels}
    return loss, variables, feeds


def test_gradients_are_those_of_differences(scratch: Any, network: Any) -> None:
    loss, variables, feeds = network
    nodes = list(variables.values())
    session = scratch.Session([loss])
    found = session.run(scratch.gradients(loss, nodes), feeds)
    for node, gradient in zip(nodes, found, strict=True):
        value = session.variables.values[node.attrs["name"]]
        assert gradient.shape == value.shape
        for index in np.ndindex(value.shape):
            kept = value[index]
            sides = []
            for step in (1e-2, -1e-2):
                value[index] = kept + step
                sides.append(float(session.run([loss], feeds)[0]))
            value[index] = kept
            assert gradient[index] == pytest.approx((sides[0] - sides[1]) / 2e-2, abs=2e-3)


def test_a_loss_without_a_way_to_a_variable_is_refused(scratch: Any, network: Any) -> None:
    loss, _, _ = network
    with pytest.raises(ValueError, match="does not depend on 'lonely'"):
        scratch.gradients(loss, [scratch.variable("lonely", np.zeros(2))])


class QueueLink:
    """A link in memory."""

    def __init__(self, outgoing: Any, incoming: Any) -> None:
        self._outgoing, self._incoming, self._arrived = outgoing, incoming, dict[int, Any]()

    def send(self, key: int, value: Any) -> None:
        self._outgoing.put((key, value))

    def receive(self, key: int) -> Any:
        while key not in self._arrived:
            arrived, value = self._incoming.get(timeout=60)
            self._arrived[arrived] = value
        return self._arrived.pop(key)


@pytest.mark.parametrize("servers", [1, 3])
def test_partitions_compute_what_one_session_does(scratch: Any, network: Any, servers: int) -> None:
    loss, variables, feeds = network
    train = scratch.minimize(loss, 0.3)
    session = scratch.Session([loss, *train])
    expected = [float(session.run([loss, *train], feeds)[0]) for _ in range(3)]

    scratch.place([loss, *train], servers)
    parts = scratch.partition([loss, *train])
    assert len(parts) == 1 + servers
    stores, links, threads = {}, {}, []
    for ps in range(servers):
        device = f"ps:{ps}"
        there, back = queue.Queue[Any](), queue.Queue[Any]()
        links[device] = QueueLink(there, back)
        stores[device] = scratch.Variables(parts[device])

        def serve(device: str = device, link: Any = None) -> None:
            for _ in range(3):
                scratch.run(parts[device], {}, stores[device], {"worker": link})

        threads.append(threading.Thread(target=serve, args=(device, QueueLink(back, there))))
        threads[-1].start()
    losses = []
    for _ in range(3):
        results = scratch.run(parts["worker"], feeds, scratch.Variables([]), links)
        losses += [float(value) for node, value in results.items() if node.op == "cross_entropy"]
    for thread in threads:
        thread.join(60)
    assert losses == expected
    trained = {name: value for store in stores.values() for name, value in store.values.items()}
    assert trained.keys() == variables.keys()
    for name, value in trained.items():
        np.testing.assert_array_equal(value, session.variables.values[name])


@pytest.mark.slow
@pytest.mark.spark
def test_it_learns_digits_inside_of_spark() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--epochs", "12"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    accuracy = re.search(r"have not seen: ([\d.]+)", done.stdout)
    assert accuracy is not None
    assert float(accuracy[1]) > 0.93
