"""What the chief stores for its client, and the client's requests; without Spark and gRPC."""

import json
import threading
from typing import Any

import numpy as np
import pytest
from google.protobuf.wrappers_pb2 import BytesValue

from sparkflow.spark.control.callbacks import Update
from sparkflow.spark.control.history.training_history import TrainingHistory
from sparkflow.spark.launch.connect import relay as relay_module
from sparkflow.spark.launch.connect.outcome import Outcome, from_parts, from_rows, to_parts
from sparkflow.spark.launch.connect.relay import Relay
from sparkflow_runtime.errors import UnavailableError

WAIT_S = 30


class Run:
    """A run that can be stopped and queried."""

    total_steps = 7

    def __init__(self) -> None:
        self.history = TrainingHistory(rows_per_epoch=10)
        self.reasons: list[str] = []

    def stop(self, reason: str = "") -> None:
        self.reasons.append(reason)

    def values(self) -> dict[str, Any]:
        return {"w": np.float32([1, 2])}


class Context:
    """The context of a request whose client waits, until it does not."""

    waits = True

    def is_active(self) -> bool:
        return self.waits


def poll(relay: Relay, acknowledged: int = 0, stop: str | None = None) -> list[dict[str, Any]]:
    request = BytesValue(value=json.dumps({"acknowledged": acknowledged, "stop": stop}).encode())
    found: list[dict[str, Any]] = json.loads(relay._poll(request).value)["events"]
    return found


def steps(first: int, *losses: float, worker: int = 0) -> Update:
    return Update(
        first, np.float32(losses), np.full(len(losses), 5, np.int64), worker, 0.5 * len(losses)
    )


@pytest.fixture
def relay() -> Relay:
    made = Relay()
    made.on_train_begin(Run())  # type: ignore[arg-type]
    return made


def test_events_come_until_they_are_acknowledged(relay: Relay) -> None:
    relay.on_checkpoint("a")
    assert [each["kind"] for each in poll(relay)] == ["begin", "checkpoint"]
    relay.on_checkpoint("b")
    found = poll(relay, acknowledged=1)
    assert [(each["number"], each.get("path")) for each in found] == [(2, "a"), (3, "b")]
    relay.on_restart("lost")
    assert [each["kind"] for each in poll(relay, acknowledged=3)] == ["restart"]


def test_steps_that_nobody_has_got_are_joined(relay: Relay) -> None:
    relay.on_steps(steps(0, 4.0))
    relay.on_steps(steps(1, 3.0, 2.0))
    relay.on_steps(steps(0, 9.0, worker=1))
    _, first, other = poll(relay)
    assert (first["losses"], first["rows"], first["waited_s"]) == ([4, 3, 2], [5, 5, 5], 1.5)
    assert (first["number"], other["number"]) == (3, 4)
    assert other["worker"] == 1
    relay.on_steps(steps(1, 8.0, worker=1))  # the client may already have the previous ones
    assert [each["losses"] for each in poll(relay, acknowledged=4)] == [[8]]


def test_many_steps_that_nobody_asks_for_are_forgotten_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, relay: Relay
) -> None:
    monkeypatch.setattr(relay_module, "_MOST_STEPS", 10)
    for step in range(40):
        relay.on_steps(steps(step, 1.0, worker=step % 2))
        relay.on_validation({"step": float(step), "loss": 1.0})
    found = poll(relay)
    kinds = [each["kind"] for each in found]
    assert kinds.count("validation") == 40
    assert 5 <= kinds.count("steps") <= 10
    assert [each for each in found if each["kind"] == "steps"][-1]["first"] == 39


def test_a_wish_to_stop_reaches_runs_that_are_and_that_come() -> None:
    relay, first, second = Relay(), Run(), Run()
    relay.on_waiting("tasks")
    relay.on_waiting("tasks")
    assert len(poll(relay, stop="early")) == 1
    relay.on_train_begin(first)  # type: ignore[arg-type]
    assert first.reasons == ["early"]
    poll(relay, stop="enough")
    assert first.reasons == ["early", "enough"]
    relay.on_train_begin(second)  # type: ignore[arg-type]
    assert second.reasons == ["enough"]


def test_the_end_of_an_epoch_waits_for_callbacks_that_need_it() -> None:
    relay = Relay(needs_epochs=True)
    relay.on_train_begin(Run())  # type: ignore[arg-type]
    leading = threading.Thread(target=relay.on_epoch_end, args=(0, {"loss": 1.0}))
    leading.start()
    answers = [list(relay._values(BytesValue(), Context()))]  # while it waits
    (number,) = (each["number"] for each in poll(relay, 1) if each["kind"] == "epoch")
    assert leading.is_alive()
    threading.Thread(target=poll, args=(relay, number)).start()
    leading.join(WAIT_S)
    assert not leading.is_alive()
    relay.end()
    (rows,) = answers
    parts = [each.value.split(b" ", 2) for each in rows]
    found = from_parts(from_rows((p.decode(), int(n), c) for p, n, c in parts))
    np.testing.assert_array_equal(found.values["w"], [1, 2])


def test_a_client_that_is_gone_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "_GONE_S", 0.0)
    relay = Relay(needs_epochs=True)
    relay.on_validation({"loss": 1.0})


def test_a_client_that_is_gone_is_waited_for_once_and_again_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay_module, "_GONE_S", 0.3)
    relay = Relay(needs_epochs=True)
    relay.on_epoch_end(0, {"loss": 1.0})
    monkeypatch.setattr(relay_module, "_GONE_S", 3600.0)
    for epoch in range(1, 4):
        relay.on_epoch_end(epoch, {"loss": 1.0})  # would take an hour each
    poll(relay)
    leading = threading.Thread(target=relay.on_epoch_end, args=(4, {"loss": 1.0}))
    leading.start()
    (number,) = (each["number"] for each in poll(relay, 4) if each["kind"] == "epoch")
    leading.join(0.5)
    assert leading.is_alive()
    threading.Thread(target=poll, args=(relay, number)).start()
    leading.join(WAIT_S)
    assert not leading.is_alive()
    relay.end()


def test_the_end_has_what_is_left_and_lets_nobody_wait(relay: Relay) -> None:
    assert [each["kind"] for each in poll(relay)] == ["begin"]
    relay.on_checkpoint("a")
    assert [each["kind"] for each in json.loads(relay.end())] == ["begin", "checkpoint"]
    assert poll(relay, acknowledged=2) == []
    with pytest.raises(UnavailableError, match="ended"):
        list(relay._values(BytesValue(), Context()))


def test_who_asks_after_the_end_gets_the_variables_of_the_outcome() -> None:
    relay = Relay()
    relay.on_train_begin(Run())  # type: ignore[arg-type]
    early = relay._values(BytesValue(), Context())
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(list(early)))
    asking.start()
    relay.end(to_parts(Outcome({"w": np.float32([9])}, {})))
    asking.join(WAIT_S)
    for rows in (*answers, list(relay._values(BytesValue(), Context()))):
        parts = [each.value.split(b" ", 2) for each in rows]
        found = from_parts(from_rows((p.decode(), int(n), c) for p, n, c in parts))
        np.testing.assert_array_equal(found.values["w"], [9])


def test_variables_are_waited_for_however_long_a_step_takes_but_for_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay_module, "_VALUES_LOOK_S", 0.01)
    relay = Relay()
    relay.on_train_begin(Run())  # type: ignore[arg-type]
    gone = Context()
    answers: list[Any] = []
    asking: list[threading.Thread] = []
    for context in (gone, Context()):
        found = relay._values(BytesValue(), context)
        asking.append(threading.Thread(target=lambda found=found: answers.append(list(found))))
    for thread in asking:
        thread.start()
    gone.waits = False
    asking[0].join(WAIT_S)
    assert answers == [[]]
    asking[1].join(0.1)
    assert asking[1].is_alive()
    relay.on_steps(steps(0, 1.0))
    asking[1].join(WAIT_S)
    assert len(answers[1]) == 2
