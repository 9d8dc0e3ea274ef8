"""Communication between chief and client during training: a callback and a service.

The client cannot be reached, so it polls: `Poll` returns new events and passes requests of its
callbacks, `Values` returns the current variables. Small Spark tasks make the calls, see `asking`.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.wrappers_pb2 import BytesValue

from sparkflow.spark.control.callbacks import Callback, RunControl, Update
from sparkflow.spark.launch.connect.outcome import Outcome, Parts, to_parts, to_rows
from sparkflow_runtime.errors import UnavailableError
from sparkflow_runtime.transport import rpc

if TYPE_CHECKING:
    from sparkflow.spark.control.history.training_history import TrainingHistory

SERVICE: Final = "sparkflow.spark.Relay"

_log = logging.getLogger(__name__)

POLL_S: Final = 5.0
"""Seconds that a poll waits for events, during which it occupies a Spark slot."""
_VALUES_LOOK_S: Final = 1.0
# After this many seconds without a poll, the chief no longer waits for the client until it polls.
_GONE_S: Final = 60.0
_LOOK_S: Final = 0.1
_MOST_STEPS: Final = 20_000


class Relay(Callback):
    """Keeps events until the client has them. `_changed` guards all fields except `needs_epochs`.

    The leading thread calls the methods, gRPC threads the handlers.

    Args:
        needs_epochs: Whether the client has callbacks that require that no step runs when they are
            called at the end of an epoch. The leading thread then waits for them.
        stop: Why training is to end as soon as it has begun; None if it is not to.
    """

    def __init__(self, needs_epochs: bool = False, stop: str | None = None) -> None:
        self.needs_epochs = needs_epochs
        self._changed = threading.Condition()
        self._events: deque[dict[str, Any]] = deque()
        self._steps = 0
        self._number = self._acknowledged = 0
        self._heard_s = time.monotonic()
        self._given_up_s: float | None = None
        self._run: RunControl | None = None
        self._stop = stop
        self._pause = False
        self._wanted: list[Future[list[tuple[str, int, bytes]]]] = []
        self._said = ""
        self._ended = False
        self._final: Parts | None = None

    @property
    def wants_pause(self) -> bool:
        """Whether the client wants the run to end for another number of workers."""
        with self._changed:
            return self._pause

    def handlers(self) -> Any:
        """Returns the handlers of the service, for an `RpcServer`."""
        return rpc.handlers(
            SERVICE,
            {
                "Poll": rpc.Method(self._poll, BytesValue),
                "Values": rpc.Method(self._values, BytesValue, streams=True),
            },
        )

    def end(self, parts: Parts | None = None) -> bytes:
        """Ends all polls and returns the events that the client does not have yet, as JSON.

        Args:
            parts: The outcome, for callbacks that still request variables; None after a failure.
        """
        with self._changed:
            self._ended = True
            self._run = None
            self._final = parts
            for future in self._wanted:
                if parts is None:
                    future.set_exception(UnavailableError(message="Training has ended"))
                else:
                    future.set_result(list(to_rows(parts)))
            self._wanted = []
            self._changed.notify_all()
            return json.dumps(list(self._events)).encode()

    # ------------------------------------------------------------------ events

    def on_waiting(self, text: str) -> None:
        """Reports each text once."""
        if text != self._said:
            self._said = text
            self._add("waiting", text=text)

    def on_resume(self, path: str, step: int, finished: bool) -> None:
        """Reports the event."""
        self._add("resume", path=path, step=step, finished=finished)

    def on_train_begin(self, run: RunControl) -> None:
        """Reports the start of a run."""
        with self._changed:
            self._run = run
            stop = self._stop
        if stop is not None:
            run.stop(stop)
        self._add("begin", total_steps=run.total_steps, history=run.history.to_dict())

    def on_steps(self, update: Update) -> None:
        """Reports the steps and answers requests for variables."""
        self._add(
            "steps",
            first=update.first_step,
            losses=update.losses.tolist(),
            rows=update.rows.tolist(),
            worker=update.worker,
            waited_s=update.waited_s,
        )
        self._answer()

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Reports the event and waits for callbacks that require it."""
        self._await(self._add("epoch", epoch=epoch, metrics=dict(metrics)))

    def on_validation(self, metrics: Mapping[str, float]) -> None:
        """Reports the event and waits for callbacks that require it."""
        self._await(self._add("validation", metrics=dict(metrics)))

    def on_checkpoint(self, path: str) -> None:
        """Reports the event."""
        self._add("checkpoint", path=path)

    def on_restart(self, reason: str) -> None:
        """Reports the event."""
        self._add("restart", reason=reason)

    def on_train_end(self, history: TrainingHistory) -> None:
        """Only answers requests, since the client learns of the end from the outcome."""
        self._answer()

    def _add(self, kind: str, **facts: Any) -> int:
        with self._changed:
            self._number += 1
            last = self._events[-1] if self._events else None
            self._steps += len(facts.get("losses", ()))
            if kind == "steps" and last is not None and _joins(last, facts):
                last["number"] = self._number
                for name in ("losses", "rows"):
                    last[name] += facts[name]
                last["waited_s"] += facts["waited_s"]
            else:
                self._events.append({"number": self._number, "kind": kind, **facts})
            if self._steps > _MOST_STEPS:
                self._thin()
            self._changed.notify_all()
            return self._number

    def _thin(self) -> None:
        """Drops the oldest steps, which nobody has requested; the history contains them."""
        for event in list(self._events):
            if event["kind"] == "steps" and self._steps > _MOST_STEPS // 2:
                self._events.remove(event)
                self._steps -= len(event["losses"])

    def _await(self, number: int) -> None:
        if not self.needs_epochs:
            return
        began = time.monotonic()
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._acknowledged >= number or bool(self._wanted), _LOOK_S
                )
                if self._acknowledged >= number:
                    return
                heard_s = self._heard_s
            self._answer()
            if heard_s == self._given_up_s:  # otherwise every epoch would wait for it again
                return
            silent_s = time.monotonic() - max(began, heard_s)
            if silent_s > _GONE_S:
                self._given_up_s = heard_s
                _log.warning("no poll of the client for %.0f s: training continues", silent_s)
                return

    def _answer(self) -> None:
        with self._changed:
            wanted, self._wanted = self._wanted, []
            run = self._run
        if not wanted or run is None:
            return
        try:
            rows = list(to_rows(to_parts(Outcome(run.values(), {}))))
        except Exception as error:
            for future in wanted:
                future.set_exception(error)
            raise
        for future in wanted:
            future.set_result(rows)

    # ------------------------------------------------------------------ requests

    def _poll(self, request: BytesValue) -> BytesValue:
        asked = json.loads(request.value)
        stop = asked.get("stop")
        with self._changed:
            self._heard_s = time.monotonic()
            self._acknowledged = max(self._acknowledged, int(asked["acknowledged"]))
            while self._events and self._events[0]["number"] <= self._acknowledged:
                self._steps -= len(self._events.popleft().get("losses", ()))
            if stop is not None:
                self._stop = str(stop)
            self._pause = self._pause or bool(asked.get("pause"))
            run = self._run
            self._changed.notify_all()
        if stop is not None and run is not None:
            run.stop(str(stop))
        with self._changed:
            self._changed.wait_for(lambda: bool(self._events) or self._ended, POLL_S)
            answer = {"events": list(self._events), "ended": self._ended}
            # Nothing is added to delivered events, because the client acknowledges their numbers.
            for event in self._events:
                event["told"] = True
            return BytesValue(value=json.dumps(answer).encode())

    def _values(self, request: BytesValue, context: Any) -> Iterator[BytesValue]:
        future: Future[list[tuple[str, int, bytes]]] = Future()
        with self._changed:
            self._heard_s = time.monotonic()
            if self._final is not None:
                future.set_result(list(to_rows(self._final)))
            elif self._run is None:
                raise UnavailableError(message="No step has been made yet, or training has ended")
            else:
                self._wanted.append(future)
                self._changed.notify_all()
        # A step or an evaluation may take any time, but `end` is always called.
        while not wait([future], _VALUES_LOOK_S).done:
            if not context.is_active():  # the caller no longer waits
                return
        for part, number, content in future.result():
            yield BytesValue(value=f"{part} {number} ".encode() + content)


def _joins(last: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Whether steps directly follow the last event and that has not been delivered."""
    return (
        last["kind"] == "steps"
        and "told" not in last
        and last["worker"] == facts["worker"]
        and last["first"] + len(last["losses"]) == facts["first"]
    )
