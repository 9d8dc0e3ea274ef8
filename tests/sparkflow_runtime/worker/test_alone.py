from collections.abc import Callable

import pytest

from sparkflow_runtime.errors import NotFoundError
from sparkflow_runtime.transport.peers import Peers
from sparkflow_runtime.worker.alone import Alone
from sparkflow_runtime.worker.worker import Worker

OTHER = "/job:w/replica:0/task:1"


@pytest.mark.parametrize(
    "use",
    [
        lambda receiver: receiver.receive(OTHER, "key", 0, False),
        lambda receiver: receiver.ask({OTHER: ["key"]}, False),
        lambda receiver: receiver.transport(OTHER, "key"),
    ],
)
def test_a_step_of_a_task_that_knows_nobody_says_who_is_missing(
    use: Callable[..., object],
) -> None:
    receiver = Alone().receiver(1)
    receiver.cancel()
    with pytest.raises(NotFoundError, match=f"Task {OTHER} is unknown: this task has no peers"):
        use(receiver)


def test_a_task_that_learns_of_others_is_not_alone_any_more() -> None:
    worker = Worker("w", 0)
    worker.learn({worker.task: "here:1"})
    assert isinstance(worker._peers, Alone)
    worker.learn({OTHER: "there:1"})
    assert isinstance(worker._peers, Peers)
    assert worker.peers is worker._peers
    worker.close()
