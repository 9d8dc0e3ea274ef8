"""Which tasks have registered, are alive or were lost, as a value: no network, threads or clock."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sparkflow.spark.cluster.events import TaskGone
from sparkflow.spark.cluster.task_board import Entry, Instruction, Progress, TaskBoard
from sparkflow.spark.cluster_layout import ClusterLayout, TaskName
from sparkflow_runtime.errors import (
    AbortedError,
    AlreadyExistsError,
    CancelledError,
    InvalidArgumentError,
)
from sparkflow_runtime.protos.rendezvous_pb2 import ReportStateRequest, TaskInfo

PS, WORKER = TaskName("ps", 0), TaskName("worker", 0)
PLAN = '{"epochs": 3}'
BEGUN = TaskBoard(ClusterLayout(1, 1)).begun(PLAN)


def _info(task: TaskName, address: str = "here:1", time_s: float = 0.0) -> TaskInfo:
    return TaskInfo(job=task.job, task=task.index, address=address, host="node7", time_s=time_s)


def _come(board: TaskBoard, *tasks: TaskName) -> TaskBoard:
    for task in tasks:
        board, _ = board.registered(_info(task, f"{task.job}:1"), 0.0)
    return board


ALL = _come(BEGUN, PS, WORKER)


def test_all_are_answered_once_all_have_come() -> None:
    one = _come(BEGUN, PS)
    assert (one.missing, one.answer_to_registered(1, "")) == ([WORKER], None)
    assert (ALL.missing, ALL.answer_to_registered(1, "")) == ([], PLAN)
    assert {job.name: dict(job.tasks) for job in ALL.cluster().job} == {
        "ps": {0: "ps:1"},
        "worker": {0: "worker:1"},
    }
    assert BEGUN.missing == [PS, WORKER]  # boards are values


def test_strangers_and_doubles_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="no ps task 7"):
        BEGUN.registered(_info(TaskName("ps", 7)), 0.0)
    with pytest.raises(AlreadyExistsError, match="ps task 0 has registered from ps:1"):
        ALL.registered(_info(PS), 0.0)


def test_those_who_wait_hear_of_an_end_and_of_another_attempt() -> None:
    one = _come(BEGUN, PS)
    with pytest.raises(AbortedError, match="another attempt"):
        one.begun(PLAN).answer_to_registered(1, "")
    ended = one.over("Ctrl-C")
    with pytest.raises(CancelledError, match="Ctrl-C"):
        ended.answer_to_registered(1, "")
    assert ended.over("later").ended == "Ctrl-C"
    with pytest.raises(CancelledError, match="Training has ended"):
        one.over("").answer_to_registered(1, "")


def test_they_are_usable_when_ready_or_when_there_is_no_use_in_waiting() -> None:
    assert not ALL.made_ready(PS).is_usable
    assert ALL.made_ready(PS).made_ready(WORKER).is_usable
    assert ALL.over("").is_usable
    assert ALL.given_up(PS, 0.0)[0].is_usable


def test_instructions() -> None:
    board = ALL.follows(PS, "a process")
    assert board.instruction(1, 0) is None
    assert board.asked().instruction(1, 0) == Instruction(wants_state=True)
    assert board.begun(PLAN).instruction(1, 0) == Instruction(attempt=2)
    assert board.asked().begun(PLAN).over("enough").instruction(1, 0) == Instruction(ended="enough")
    asked = board.asked()
    assert not asked.all_answered
    assert asked.told(ReportStateRequest(job="ps", task=0)).all_answered


def test_a_broken_connection() -> None:
    board = ALL.follows(PS, "first")
    assert board.follows(PS, "second").broke(PS, "first") is None
    broken = board.broke(PS, "first")
    assert broken is not None
    assert not broken.is_settled(PS, 1)
    assert broken.follows(PS, "second").is_settled(PS, 1)
    assert broken.begun(PLAN).is_settled(PS, 1)
    gone, event = broken.given_up(PS, 6.0)
    assert event == TaskGone(PS, "node7", 6.0)
    with pytest.raises(AbortedError, match="ps task 0 was given up"):
        gone.follows(PS, "late")
    _, unknown = BEGUN.given_up(PS, 0.0)
    assert unknown.host == "an unknown host"


def test_a_loss_that_was_told_of_counts_once() -> None:
    told = ALL.follows(PS, "killed").follows(WORKER, "lives").loss_told(PS)
    assert told.is_usable
    assert not told.can_begin  # its Spark task has not asked yet
    assert told.broke(PS, "killed") is None
    again = told.asks_restart(PS).begun(PLAN)
    assert again.broke(PS, "killed") is None
    assert _come(again, PS).follows(PS, "next").following[PS] == "next"
    broken = ALL.follows(PS, "killed").broke(PS, "killed")
    assert broken is not None
    assert broken.loss_told(PS).is_settled(PS, 1)


def test_silence_counts_from_the_last_heartbeat() -> None:
    assert ALL.silence(PS, 100.0) == 0.0
    assert ALL.heard(PS, Progress(5, 2, 90.0)).silence(PS, 100.0) == 10.0


def test_another_attempt_needs_an_answer_of_every_task() -> None:
    lives = ALL.follows(PS, "a process")
    assert not lives.can_begin
    asks = lives.asks_restart(WORKER)
    assert asks.can_begin
    assert not asks.asks_no_more(WORKER).can_begin
    assert asks.answer_to_restart(WORKER, 1) is None
    assert asks.begun(PLAN).answer_to_restart(WORKER, 1)
    assert asks.over("").answer_to_restart(WORKER, 1) is False
    again = asks.begun('{"epochs": 1}')
    assert (again.attempt, again.missing, again.lost) == (2, [PS, WORKER], frozenset())
    assert _come(again, PS, WORKER).answer_to_registered(2, "") == '{"epochs": 1}'


def test_a_lost_worker_comes_back_with_a_plan_of_its_own() -> None:
    ready = ALL.made_ready(PS).made_ready(WORKER).asks_restart(WORKER)
    waits = ready.returnable(WORKER, (1, 7))
    assert not waits.is_usable
    assert waits.answer_to_restart(WORKER, 1)
    back, plan = waits.registered(_info(WORKER, "there:2"), 0.0)
    assert json.loads(plan) == {"epochs": 3, "start": [[1, 7]]}
    assert back.answer_to_registered(1, plan) == plan
    assert (back.lost, dict(back.returning)) == (frozenset(), {})
    with pytest.raises(AlreadyExistsError):
        back.registered(_info(WORKER), 0.0)


def test_times_of_tasks_are_those_of_the_driver() -> None:
    board, _ = BEGUN.registered(_info(PS, time_s=130.0), 100.0)
    assert board.driver_time(PS, 140.0, 111.0) == 110.0
    assert board.driver_time(WORKER, 140.0, 141.0) == 140.0
    assert board.driver_time(WORKER, 140.0, 139.0) == 139.0  # nothing arrives before it was sent


def test_a_clock_is_compared_by_the_message_that_came_fastest() -> None:
    slow, _ = BEGUN.registered(_info(PS, time_s=130.0), 103.0)
    again, _ = slow.begun(PLAN).registered(_info(PS, time_s=150.0), 120.0)
    assert again.driver_time(PS, 160.0, 999.0) == 130.0
    lost = replace(again, returning={PS: PLAN})
    fast, _ = lost.registered(_info(PS, time_s=170.0), 145.0)
    assert fast.driver_time(PS, 180.0, 999.0) == 150.0
    elsewhere = _info(PS, time_s=10.0)
    elsewhere.host = "node8"
    moved, _ = replace(fast, returning={PS: PLAN}).registered(elsewhere, 200.0)
    assert moved.driver_time(PS, 11.0, 999.0) == 201.0


def test_spark_tasks_wait_until_all_have_come_and_learn_who_is_at_their_place() -> None:
    here, there = Entry("10.0.0.1", 7), Entry("10.0.0.2", 8)
    one = BEGUN.enters(PS, here)
    assert one is not None
    assert one.answer_to_entered(here) is None
    assert one.enters(PS, there) is None  # Spark runs it twice
    both = one.enters(WORKER, there)
    assert both is not None
    assert (both.answer_to_entered(here), both.answer_to_entered(there)) == (1, 1)
    same = one.enters(WORKER, Entry("10.0.0.1", 9))
    assert same is not None
    assert same.answer_to_entered(here) == 2
    with pytest.raises(InvalidArgumentError, match="no worker task 1"):
        BEGUN.enters(TaskName("worker", 1), here)


def test_another_spark_task_takes_over_while_all_wait() -> None:
    here = Entry("10.0.0.1", 7)
    one = BEGUN.enters(PS, here)
    assert one is not None
    again = one.left(PS).enters(PS, Entry("10.0.0.1", 8))
    assert again is not None
    assert again.entered[PS].task_attempt_id == 8


def test_a_second_spark_task_takes_over_from_a_lost_worker_without_one() -> None:
    begun = BEGUN.enters(PS, Entry("10.0.0.1", 7))
    assert begun is not None
    begun = begun.enters(WORKER, Entry("10.0.0.1", 8))
    assert begun is not None
    again = Entry("10.0.0.2", 9)
    running = _come(begun, PS, WORKER).follows(WORKER, "its process")
    assert running.enters(WORKER, again) is None
    lost = running.broke(WORKER, "its process")
    assert lost is not None
    assert lost.enters(WORKER, again) is None  # the run decides first
    returning = lost.returnable(WORKER, (0, 0))
    assert returning.is_vacant(WORKER)
    asked = returning.asks_restart(WORKER)  # only its process was lost
    assert asked.enters(WORKER, again) is None
    taken = returning.enters(WORKER, again)
    assert taken is not None
    assert taken.entered[WORKER] == again
    assert taken.answer_to_entered(again) == 1


def test_a_late_second_spark_task_has_nothing_to_do_after_the_end() -> None:
    here = Entry("10.0.0.1", 7)
    one = BEGUN.enters(PS, here)
    assert one is not None
    ended = one.over("").enters(PS, Entry("10.0.0.1", 8))
    assert ended is not None
    assert ended.answer_to_entered(here) == 0
