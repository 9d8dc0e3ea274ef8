"""What hardware tests may count on, and clusters in this process."""

from __future__ import annotations

import os
import socket
import sys

from sparkflow.session.session import Session
from sparkflow.train.clusters.cluster_spec import ClusterSpec
from sparkflow.train.clusters.server import Server
from sparkflow_runtime.protos.config_pb2 import ConfigProto


def gpu_device_name() -> str:
    """The name of the first GPU, such as `/device:GPU:0`; "" when there is none."""
    with Session() as session:
        for device in session.list_devices():
            if device.device_type == "GPU":
                return device.name[device.name.index("/device:") :]
    return ""


def is_gpu_available(
    cuda_only: bool = False, min_cuda_compute_capability: tuple[int, int] | None = None
) -> bool:
    """Whether sessions of this process have a GPU.

    Args:
        cuda_only: Accepted; every GPU that sparkflow uses is a CUDA one.
        min_cuda_compute_capability: Accepted; what cupy runs on is enough for every kernel.
    """
    return gpu_device_name() != ""


def is_built_with_cuda() -> bool:
    """True: kernels for CUDA come with the package, and need cupy to run."""
    return True


def is_built_with_gpu_support() -> bool:
    """True, see `is_built_with_cuda`."""
    return True


def is_built_with_rocm() -> bool:
    """False."""
    return False


def is_built_with_xla() -> bool:
    """False: sparkflow has a compiler of its own."""
    return False


def create_local_cluster(
    num_workers: int,
    num_ps: int,
    protocol: str = "grpc",
    worker_config: ConfigProto | None = None,
    ps_config: ConfigProto | None = None,
) -> tuple[list[Server], list[Server]]:
    """Starts the servers of a cluster in this process.

    Args:
        num_workers: Tasks of the job `worker`.
        num_ps: Tasks of the job `ps`.
        protocol: `grpc`.
        worker_config: Session options of the workers.
        ps_config: Session options of the parameter servers.

    Returns:
        The workers and the parameter servers, started.
    """
    ports = _free_ports(num_workers + num_ps)
    jobs = {
        name: [f"localhost:{port}" for port in chosen]
        for name, chosen in (("worker", ports[:num_workers]), ("ps", ports[num_workers:]))
        if chosen
    }
    cluster = ClusterSpec(jobs)
    started = {}
    for job, count, config in (("worker", num_workers, worker_config), ("ps", num_ps, ps_config)):
        started[job] = [
            Server(cluster, job_name=job, task_index=i, protocol=protocol, config=config)
            for i in range(count)
        ]
    return started["worker"], started["ps"]


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("localhost", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def test_src_dir_path(relative_path: str) -> str:
    """The path of a file next to the running program (below `$TEST_SRCDIR` if that is set)."""
    root = os.environ.get("TEST_SRCDIR") or os.path.dirname(os.path.abspath(sys.argv[0]))
    return os.path.join(root, relative_path)
