import gc
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sparkflow_runtime.ir.phases import Phase, Repeated, graph_pass, missing, run_phases


def halved(number: int) -> int:
    return number // 2 if number > 1 else number


HALVED = Phase("halved", halved, ("number",), ("number",))
SPLIT = Phase("split", lambda number: divmod(number, 10), ("number",), ("tens", "ones"))


def test_phases_run_in_order_and_give_what_they_say() -> None:
    values: dict[str, Any] = {"number": 84}
    assert run_phases([HALVED, SPLIT], values)
    assert values == {"number": 42, "tens": 4, "ones": 2}


@pytest.mark.parametrize(("most", "left"), [(3, 2), (9, 1)])
def test_phases_are_repeated_until_nothing_changes(most: int, left: int) -> None:
    values: dict[str, Any] = {"number": 16}
    assert run_phases([Repeated((HALVED,), most)], values)
    assert values["number"] == left


def test_who_watches_sees_every_phase_and_whether_it_changed_anything() -> None:
    seen: list[tuple[str, int, bool]] = []

    def watch(phase: Phase, values: Any, changed: bool, seconds: float) -> None:
        assert seconds >= 0
        seen.append((phase.name, values["number"], changed))

    run_phases([Repeated((HALVED,), 9)], {"number": 4}, watch)
    assert seen == [("halved", 2, True), ("halved", 1, True), ("halved", 1, False)]


def test_what_a_phase_gives_has_as_many_values_as_names() -> None:
    with pytest.raises(ValueError, match="zip"):
        run_phases([Phase("three", lambda: (1, 2, 3), (), ("a", "b"))], {})


def test_what_is_missing_is_named() -> None:
    assert missing([HALVED, SPLIT], ["number"]) == []
    assert missing([Repeated((HALVED,), 2), SPLIT], []) == ["halved needs number"]
    assert graph_pass(halved, "targets").needs == ("graph", "targets")


def test_a_phase_without_work_is_left_out() -> None:
    seen: list[str] = []
    split = Phase("split", SPLIT.run, SPLIT.needs, SPLIT.gives, when=lambda number: number > 9)
    for number, ones in ((4, None), (14, 4)):
        values = {"number": number, "ones": None}
        changed = run_phases([split], values, lambda phase, *_: seen.append(phase.name))
        assert (changed, values["ones"]) == (ones is not None, ones)
    assert seen == ["split"]


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    """The collector is enabled again, whatever a test does."""
    yield
    gc.enable()


def _looking(seen: list[bool]) -> Phase:
    """A phase that notes whether garbage is collected."""

    def look() -> str:
        seen.append(gc.isenabled())
        return "done"

    return Phase("look", look, (), ("looked",))


def _in_another_thread(run: Callable[[], Any]) -> Phase:
    """A phase that waits for another thread."""

    def wait() -> str:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return "done"

    return Phase("wait", wait, (), ("waited",))


def test_no_garbage_is_collected_until_the_last_thread_is_done() -> None:
    seen: list[bool] = []
    other = _in_another_thread(lambda: run_phases([_looking(seen)], {}))
    run_phases([other, Repeated((_looking(seen),), 2)], {})
    assert set(seen) == {False}
    assert gc.isenabled()


def test_garbage_is_collected_after_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        run_phases([Phase("three", lambda: (1, 2, 3), (), ("a", "b"))], {})
    assert gc.isenabled()


def test_a_program_without_collections_stays_so() -> None:
    gc.disable()
    run_phases([HALVED], {"number": 2})
    assert not gc.isenabled()


def test_a_process_forked_meanwhile_collects_garbage() -> None:
    codes: list[int] = []

    def fork() -> str:
        child = os.fork()
        if child == 0:
            was_enabled = gc.isenabled()
            run_phases([HALVED], {"number": 2})  # must not wait for the threads of its parent
            os._exit(int(was_enabled and gc.isenabled()))
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return "done"

    run_phases([Phase("fork", fork, (), ("forked",))], {})
    assert codes == [1]
