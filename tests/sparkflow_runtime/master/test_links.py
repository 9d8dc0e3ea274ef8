from collections.abc import Iterator

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import AbortedError
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.master.links import LocalLink
from sparkflow_runtime.master.running import RunningSteps
from sparkflow_runtime.worker.worker import Worker
from support.graphs import node

CPU = "/job:w/replica:0/task:0/device:CPU:0"


@pytest.fixture
def link() -> Iterator[LocalLink]:
    worker = Worker("w", 0)
    made = LocalLink(worker)
    yield made
    worker.close()
    made.close()


def on(*nodes: Node) -> list[Node]:
    return [Node(n.name, n.op, n.inputs, n.control_inputs, CPU, n.attrs) for n in nodes]


def test_a_partition_runs_in_this_thread_or_in_another_one(link: LocalLink) -> None:
    link.create_session("s")
    doubled = node("doubled", "AddV2", "x", "x", T=dtypes.float32)
    nodes = on(node("x", "_Arg", index=3), doubled, node("r", "_Retval", "doubled", index=5))
    handle = link.register("s", nodes, {})
    steps = RunningSteps([link])
    args = {3: np.float32([1.5])}
    step = steps.begin()
    here = link.run_here("s", handle, step, args)
    there = link.begin("s", handle, step, args).end(step)
    assert here.keys() == there.keys() == {5}
    np.testing.assert_array_equal(here[5], [3.0])
    np.testing.assert_array_equal(there[5], [3.0])


def test_a_session_that_was_deleted_runs_nothing(link: LocalLink) -> None:
    link.create_session("s")
    handle = link.register("s", on(node("n", "NoOp")), {})
    link.delete_session("s")
    with pytest.raises(AbortedError, match="Session 's' does not exist"):
        link.run_here("s", handle, RunningSteps([link]).begin(), {})
