"""Several callbacks as one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sparkflow.spark.control.callbacks import Callback, Callbacks


def test_every_event_reaches_all_in_order() -> None:
    told: list[str] = []

    def tells(number: int) -> Callback:
        def method(name: str) -> object:
            return lambda self, *arguments: told.append(f"{number} {name} {len(arguments)}")

        names = [each for each in vars(Callback) if each.startswith("on_")]
        return type("Tells", (Callback,), {name: method(name) for name in names})()

    both = Callbacks([tells(1), tells(2)])
    events = {
        "on_resume": ("path", 3, False),
        "on_waiting": ("rows",),
        "on_train_begin": (None,),
        "on_steps": (None,),
        "on_epoch_end": (0, {}),
        "on_validation": ({},),
        "on_checkpoint": ("path",),
        "on_restart": ("reason",),
        "on_train_end": (None,),
        "on_close": (),
    }
    assert events.keys() == {each for each in vars(Callback) if each.startswith("on_")}
    for name, arguments in events.items():
        getattr(both, name)(*arguments)
        assert told == [f"1 {name} {len(arguments)}", f"2 {name} {len(arguments)}"]
        told.clear()


def test_all_are_closed_and_the_first_failure_is_raised() -> None:
    closed = []

    class Fails(Callback):
        def on_close(self) -> None:
            closed.append(self)
            raise OSError(f"failure {len(closed)}")

    with pytest.raises(OSError, match="failure 1"):
        Callbacks([Fails(), Fails()]).on_close()
    assert len(closed) == 2


def test_one_that_needs_quiet_is_enough() -> None:
    class Looks(Callback):
        needs_epochs = True

    assert not Callbacks([Callback()]).needs_epochs
    assert Callbacks([Callback(), Looks()]).needs_epochs


def test_other_things_are_refused() -> None:
    with pytest.raises(TypeError, match=r"instances of sparkflow\.spark\.Callback, got 3"):
        Callbacks([3])  # type: ignore[list-item]


def test_runs_need_no_pyspark() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None; "
        "import sparkflow.spark.control.attempts.fit_state; "
        "import sparkflow.spark.control.attempts.retry_loop, "
        "sparkflow.spark.storage.hadoop_files"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
