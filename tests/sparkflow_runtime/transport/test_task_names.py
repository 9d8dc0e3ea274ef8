from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.transport.task_names import addresses, task_name


def test_every_task_of_a_cluster_has_its_address_under_its_full_name() -> None:
    cluster = ClusterDef()
    cluster.job.add(name="ps").tasks[0] = "a:1"
    cluster.job.add(name="worker").tasks.update({0: "b:1", 2: "b:2"})
    assert addresses(cluster) == {
        task_name("ps", 0): "a:1",
        "/job:worker/replica:0/task:0": "b:1",
        task_name("worker", 2): "b:2",
    }
    assert addresses(ClusterDef()) == {}
