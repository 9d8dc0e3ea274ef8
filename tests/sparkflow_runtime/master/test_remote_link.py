from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.errors import CancelledError
from sparkflow_runtime.master.client import open_session
from sparkflow_runtime.master.remote_link import RemoteLink, import_update
from sparkflow_runtime.master.running import Pending
from sparkflow_runtime.protos.config_pb2 import RunOptions
from sparkflow_runtime.protos.run_loop_pb2 import RunLoopUpdate
from sparkflow_runtime.tensor_proto import export_tensor
from sparkflow_runtime.testing.local_cluster import LocalCluster
from sparkflow_runtime.transport.channel.address import Transport
from support.graphs import const, graph_def, node


def test_what_a_loop_elsewhere_yielded_comes_whole() -> None:
    sent = RunLoopUpdate(first_step=4, num_steps=3, waited_s=0.25, elapsed_s=0.5, num_dropped=1)
    sent.value.add(name="0", tensor=export_tensor(np.float32([1.0, 2.0])))
    update = import_update(RunLoopUpdate.FromString(sent.SerializeToString()))
    assert (update.first_step, update.num_steps, update.num_dropped) == (4, 3, 1)
    assert (update.waited_s, update.elapsed_s) == (0.25, 0.5)
    np.testing.assert_array_equal(update.values[0], np.float32([1.0, 2.0]))


@pytest.mark.parametrize("here", [[3.0], [3.0, 4.0]])
@pytest.mark.parametrize("takes", [False, True])
def test_calls_held_back_reach_tasks_that_wait_for_each_other(
    here: list[float], takes: bool
) -> None:
    """The master's own partition may need nothing from them, or something from only one."""
    first, second, own = "/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0"
    graph = graph_def(
        const("a", here, device=first),
        node("twice", "AddV2", "a", "a", device=first),
        node("square", "Mul", "twice", "twice", device=second),
        const("c", here, device=own),
        node("d", "AddV2", "c", "square" if takes else "c", device=own),
    )
    with LocalCluster(2, 1, token="t") as cluster:
        session = open_session(cluster.target("worker", 0), credentials=cluster.credentials)
        session.extend(graph)
        for _ in range(20):
            found, _ = session.run(["square:0", "d:0"], {}, [])
            value = np.float32(here)
            np.testing.assert_array_equal(found[0], 4 * value * value)
            np.testing.assert_array_equal(found[1], value + (found[0] if takes else value))
        session.close()


@pytest.mark.parametrize("transport", ["auto", "grpc"])
@pytest.mark.parametrize("timeout_ms", [0, 20_000])
def test_a_step_that_begins_when_its_session_closes_says_so(
    monkeypatch: pytest.MonkeyPatch, transport: Transport, timeout_ms: int
) -> None:
    place = "/job:ps/task:0"
    graph = graph_def(const("a", [3.0], device=place), node("b", "Neg", "a", device=place))
    options = RunOptions(timeout_in_ms=timeout_ms) if timeout_ms else None
    with LocalCluster(1, 1, token="t", transport=transport) as cluster:
        session = open_session(cluster.target("worker", 0), credentials=cluster.credentials)
        session.extend(graph)
        session.run(["b:0"], {}, [])
        begin = RemoteLink.begin
        late: list[RemoteLink] = []

        def begin_late(link: RemoteLink, *args: Any, **options: Any) -> Pending:
            session.close()
            late.append(link)
            return begin(link, *args, **options)

        monkeypatch.setattr(RemoteLink, "begin", begin_late)
        with pytest.raises(CancelledError, match=r"^Session has been closed\.$"):
            session.run(["b:0"], {}, [], options)
        assert late[0]._partitions == {}
