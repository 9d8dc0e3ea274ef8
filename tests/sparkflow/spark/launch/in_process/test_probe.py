import subprocess

import pytest

from sparkflow.spark.launch.in_process.probe import look


def _denied() -> None:
    raise PermissionError(1, "Operation not permitted")


def test_nothing_speaks_against_processes_here() -> None:
    assert look() == ""


def test_what_is_denied_is_named() -> None:
    assert look(connects=_denied) == "they may open no socket ([Errno 1] Operation not permitted)"
    assert look(spawns=_denied) == "they may start no process ([Errno 1] Operation not permitted)"


@pytest.mark.parametrize("error", [TimeoutError("timed out"), ConnectionRefusedError(111, "no")])
def test_a_socket_that_reaches_nobody_is_none(error: OSError) -> None:
    def connects() -> None:
        raise error

    assert look(connects=connects).startswith("they may open no socket")


def test_a_process_that_ends_badly_is_none() -> None:
    def spawns() -> None:
        raise subprocess.CalledProcessError(1, "python")

    assert look(spawns=spawns).startswith("they may start no process")
