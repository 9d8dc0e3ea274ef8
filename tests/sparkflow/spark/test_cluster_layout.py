"""Which partition has which role."""

import pytest

from sparkflow.spark.cluster_layout import ClusterLayout, TaskName, device_filters, stage_job


def test_parameter_servers_come_first() -> None:
    layout = ClusterLayout(num_ps=2, num_workers=3)
    assert layout.num_tasks == 5
    assert [str(task) for task in layout.tasks] == [
        "ps task 0",
        "ps task 1",
        "worker task 0",
        "worker task 1",
        "worker task 2",
    ]
    assert layout.task(4) == TaskName("worker", 2)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [(0, [0, 0, 0]), (1, [1, 0, 0]), (7, [3, 2, 2]), (9, [3, 3, 3])],
)
def test_workers_get_equal_shares(rows: int, expected: list[int]) -> None:
    assert ClusterLayout(1, 3).worker_rows(rows) == expected


@pytest.mark.parametrize(("rows", "steps"), [(1, 1), (8, 2), (9, 2), (10, 2), (13, 3)])
def test_an_epoch_is_as_long_as_that_of_the_largest_share(rows: int, steps: int) -> None:
    assert ClusterLayout(1, 3).steps_per_epoch(rows, batch_size=2) == steps


def test_workers_host_the_variables_without_parameter_servers() -> None:
    layout = ClusterLayout.of(0, 2, "sync")
    assert (layout.num_tasks, layout.num_shards) == (2, 2)
    assert layout.tasks == [TaskName("worker", 0), TaskName("worker", 1)]
    assert layout.hosts == {TaskName("ps", each): TaskName("worker", each) for each in range(2)}
    assert not ClusterLayout.of(1, 2, "async").hosts


def test_all_reduce_needs_no_parameter_servers() -> None:
    layout = ClusterLayout.of(1, 3, "allreduce")
    assert (layout.num_ps, layout.num_shards, layout.num_tasks) == (0, 0, 3)


def test_stages_come_after_the_workers() -> None:
    layout = ClusterLayout.of(1, 2, "sync", num_stages=3)
    jobs = ("worker", "stage1", "stage2")
    names = ["ps task 0", *(f"{job} task {index}" for job in jobs for index in (0, 1))]
    assert [str(task) for task in layout.tasks] == names
    assert layout.num_tasks == 7
    assert layout.per_task([5, 6], 0) == [0, 5, 6, 0, 0, 0, 0]
    assert layout.described == "numWorkers=2, modelParallel=3 and numPs=1"
    assert device_filters(1, 3) == [
        "/job:ps",
        "/job:stage2/task:1",
        "/job:stage1/task:1",
        "/job:worker/task:1",
    ]


def test_every_stage_holds_variables_without_parameter_servers() -> None:
    layout = ClusterLayout.of(0, 2, "async", num_stages=2)
    assert {str(server): str(host) for server, host in layout.hosts.items()} == {
        "ps task 0": "worker task 0",
        "ps task 1": "worker task 1",
        "ps task 2": "stage1 task 0",
        "ps task 3": "stage1 task 1",
    }
    assert layout.num_shards == 4
    assert not ClusterLayout.of(1, 2, "async", 2).hosts


def test_servers_apart_have_partitions_of_their_own() -> None:
    layout = ClusterLayout(2, 2, servers_apart=True)
    together = ClusterLayout(2, 2)
    assert layout.tasks == together.tasks
    assert (layout.num_tasks, layout.num_partitions, layout.first_worker) == (4, 2, 0)
    assert layout.task(1) == TaskName("worker", 1)
    assert layout.task(1, of_servers=True) == TaskName("ps", 1)
    assert layout.per_partition([5, 6], 0) == [5, 6]
    assert together.per_partition([5, 6], 0) == [0, 0, 5, 6]
    assert layout.per_task([5, 6], 0) == [0, 0, 5, 6]
    staged = ClusterLayout(1, 2, num_stages=2, messengers=1)
    assert staged.per_partition([5, 6], 0) == [0, 0, 5, 6, 0, 0]


def test_another_number_of_workers() -> None:
    hosted = ClusterLayout.of(0, 2, "sync", 2)
    assert hosted.of_workers(3) == ClusterLayout.of(0, 3, "sync", 2)
    assert ClusterLayout.of(1, 2, "sync").of_workers(1) == ClusterLayout.of(1, 1, "sync")
    assert ClusterLayout(1, 2, messengers=1, servers_apart=True).of_workers(4).messengers == 1


def test_stages_have_the_shards_beside_them() -> None:
    layout = ClusterLayout.of(0, 2, "sync", 3)
    for stage in range(3):
        hosts = [layout.hosts[TaskName("ps", each)] for each in layout.shards_of_stage(stage)]
        assert hosts == [TaskName(stage_job(stage), each) for each in range(2)]
    assert not ClusterLayout.of(2, 2, "sync", 3).shards_of_stage(1)
