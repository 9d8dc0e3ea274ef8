"""Strands, one of which runs while others wait."""

import threading
from dataclasses import dataclass

import pytest

from sparkflow_runtime.resources import turns
from sparkflow_runtime.resources.turns import StrandRun, call_unseen, others_go_on

WAIT_S = 20


@dataclass
class Part:
    before: int = 0
    after: tuple[int, ...] = ()


def run(parts, call, stop=lambda: None):
    StrandRun(parts, call, stop).execute(set())


def test_strands_run_in_order_in_one_thread():
    seen = []
    parts = [Part(after=(2,)), Part(after=(2,)), Part(before=2)]
    run(parts, lambda number: seen.append((number, threading.get_ident())))
    assert seen == [(number, threading.get_ident()) for number in range(3)]


def test_one_goes_on_while_another_waits():
    done = threading.Event()

    def call(number):
        if number:
            done.set()
        else:
            with others_go_on():
                assert done.wait(WAIT_S)

    run([Part(), Part()], call)


def test_only_one_runs_at_a_time():
    inside, most = 0, 0
    waits = [threading.Event() for _ in range(8)]

    def call(number):
        nonlocal inside, most
        for turn in range(20):
            inside += 1
            most = max(most, inside)
            inside -= 1
            with others_go_on():
                waits[number].wait(0.0001 * (turn % 3))

    run([Part() for _ in waits], call)
    assert most == 1


def test_the_first_failure_ends_the_others():
    stopped = threading.Event()

    def call(number):
        if number:
            raise ValueError("bad")
        with others_go_on():
            assert stopped.wait(WAIT_S)
        raise KeyError("ended")

    with pytest.raises(ValueError, match="bad"):
        run([Part(after=(2,)), Part(), Part(before=1)], call, stopped.set)


def test_strands_within_strands():
    done = threading.Event()

    def inner(number):
        if number == 0:
            with others_go_on():
                assert done.wait(WAIT_S)

    def outer(number):
        if number == 0:
            run([Part(), Part()], inner)
        else:
            done.set()

    run([Part(), Part()], outer)


def test_a_call_that_nobody_sees_into_keeps_the_turn_for_a_while(monkeypatch):
    monkeypatch.setattr(turns, "GRACE_S", 0.05)
    order, done = [], threading.Event()

    def call(number):
        if number < 2:
            call_unseen("quick", order.append, number)
        elif number == 2:
            call_unseen("slow", done.wait, WAIT_S)
            order.append(2)
        else:
            order.append(3)
            done.set()

    run([Part() for _ in range(4)], call)
    assert order == [0, 1, 3, 2]


def test_without_strands_nothing_is_done():
    with others_go_on():
        assert call_unseen("key", max, 1, 2) == 2
