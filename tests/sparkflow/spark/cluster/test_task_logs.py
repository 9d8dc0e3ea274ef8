"""Lines of tasks on their way to the driver."""

from collections.abc import Sequence

from sparkflow.spark.cluster.task_logs import LineSender, format_lines
from sparkflow.spark.cluster_layout import TaskName


def test_all_lines_of_a_quiet_task_arrive_in_order() -> None:
    written: list[str] = []
    sender = LineSender(lambda lines, dropped: written.extend(lines))
    for number in range(50):
        sender.add(f"line {number}\n")
    sender.end()
    assert written == [f"line {number}" for number in range(50)]


def test_floods_are_cut() -> None:
    written: list[str] = []
    left_out: list[int] = []

    def write(lines: Sequence[str], dropped: int) -> None:
        written.extend(lines)
        left_out.append(dropped)

    sender = LineSender(write, clock=lambda: 0.0)
    for number in range(2_000):
        sender.add(f"line {number}")
    sender.end()
    assert len(written) == 500
    assert sum(left_out) == 1_500


def test_lines_have_the_role_before_them() -> None:
    assert format_lines(TaskName("worker", 1), ["hello", "world"], 3) == (
        "[worker 1] hello\n[worker 1] world\n"
        "[worker 1] (3 lines left out: more than 100 a second)\n"
    )
