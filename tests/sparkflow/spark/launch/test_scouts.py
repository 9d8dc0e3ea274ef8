"""What makes dynamic allocation request executors."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.launch import elastic_training
from sparkflow.spark.launch.elastic_training import scouts


def test_scouts_go_on_after_one_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elastic_training, "_SCOUT_S", 0.01)
    jobs, third = [], threading.Event()

    def foreach(_: Any) -> None:
        jobs.append(len(jobs))
        if len(jobs) == 1:
            raise RuntimeError("Job aborted due to stage failure: ExecutorLostFailure")
        if len(jobs) == 3:
            third.set()

    context = SimpleNamespace(
        addJobTag=lambda tag: None,
        setLocalProperty=lambda name, value: None,
        parallelize=lambda rows, parts: SimpleNamespace(foreach=foreach),
        cancelJobsWithTag=lambda tag: None,
    )
    session: Any = SimpleNamespace(sparkContext=context)
    with scouts(session, ClusterLayout(1, 2)):
        assert third.wait(10)
    count = len(jobs)
    threading.Event().wait(0.05)
    assert len(jobs) == count
