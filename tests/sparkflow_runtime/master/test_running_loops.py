from collections.abc import Iterator

from sparkflow_runtime.master.running_loops import END_TIMEOUT_S, LoopRegister
from sparkflow_runtime.worker.loop import LoopEnd, LoopUpdate


class Running:
    """A loop that records who waits for it, and how long."""

    done = False

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.waits: list[float | None] = []

    def updates(self) -> Iterator[LoopUpdate]:
        return iter(())

    def poll(self, interval_s: float | None) -> Iterator[LoopUpdate | None]:
        return iter(())

    def wait(self, timeout_s: float | None = None) -> LoopEnd:
        self.waits.append(timeout_s)
        if self.error is not None:
            raise self.error
        return LoopEnd(0)

    def stop(self) -> None: ...

    def cancel(self, reason: str = "") -> None: ...


def test_all_loops_are_waited_for_also_after_one_that_does_not_end() -> None:
    register = LoopRegister()
    loops = [Running(TimeoutError()), Running(), Running(TimeoutError())]
    for loop in loops:
        assert register.add(loop) is loop
    register.await_end()
    assert [loop.waits for loop in loops] == [[END_TIMEOUT_S]] * 3


def test_a_loop_that_nobody_holds_is_not_waited_for() -> None:
    register = LoopRegister()
    waits = register.add(Running()).waits  # type: ignore[attr-defined]
    register.await_end()
    assert waits == []
