"""The hosted rows of a process, created with the first of them."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sparkflow.spark.data.hosted import hosted_rows
from sparkflow.spark.data.hosted.on_demand import HostedOnDemand
from sparkflow_runtime.errors import InvalidArgumentError


def test_a_process_that_hosts_none_loads_no_pyarrow() -> None:
    program = (
        "import sys\n"
        "from sparkflow.spark.data.hosted.on_demand import HostedOnDemand\n"
        "HostedOnDemand(0, [{}])\n"
        "print('pyarrow' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"False\n"


def test_all_that_ask_get_the_same_rows_with_all_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Rows:
        def __init__(self, worker: int) -> None:
            self.taken: list[Any] = [worker]
            made.append(self)

        def take(self, message: Any) -> None:
            self.taken.append(message)

        def find(self, text: str) -> Any:
            return self, text

    monkeypatch.setattr(hosted_rows, "HostedRows", Rows)
    hosted = HostedOnDemand(3, [{"dataset": "a"}])
    assert made == []
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(hosted.find, "abcd"))
    hosted.take({"dataset": "b"})
    assert [text for _, text in found] == list("abcd")
    assert len(made) == 1
    assert made[0].taken == [3, {"dataset": "a"}, {"dataset": "b"}]


def test_what_is_wrong_with_a_question_is_said() -> None:
    with pytest.raises(InvalidArgumentError, match="does not describe rows"):
        HostedOnDemand(0).find("nonsense")
