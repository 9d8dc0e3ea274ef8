"""What a process is told about threads and BLAS: by the environment it starts with, and later.

Libraries read these variables while they load, so processes that host a worker are started with an
environment from here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from sparkflow_runtime.errors import InvalidArgumentError

if TYPE_CHECKING:
    from sparkflow_runtime.protos.config_pb2 import ConfigProto

SLOWER_KERNEL: Final = "OPENBLAS_CORETYPE"
"""Some images set it to a kernel that is slower than the one OpenBLAS would choose."""
THREAD_VARIABLES: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""What our kernels (`codegen.machine.threads.VARIABLE`) and numerical libraries look at."""


def worker_environment(environment: Mapping[str, str], count: int) -> dict[str, str]:
    """The environment of a process that hosts a worker.

    Args:
        environment: That of the process that starts it.
        count: How many threads kernels may use, ours and those of numerical libraries.
    """
    child = {name: value for name, value in environment.items() if name != SLOWER_KERNEL}
    child.update(dict.fromkeys(THREAD_VARIABLES, str(count)))
    return child


def apply_threads(config: ConfigProto) -> None:
    """Does what `intra_op_parallelism_threads` asks for; nothing where it is 0.

    As in TensorFlow, the setting is the process's, whichever session brings it. It is for kernels
    that are bound from now on, and for BLAS, whoever calls it: numpy knows no sessions.
    `inter_op_parallelism_threads` is checked and changes nothing: nodes of a partition run one
    after the other and divide their work among these threads.

    Raises:
        InvalidArgumentError: A number is negative.
    """
    number = config.intra_op_parallelism_threads
    if number:
        import threadpoolctl

        from sparkflow_runtime.codegen.machine import threads

        threads.set_count(number)
        threadpoolctl.threadpool_limits(threads.count(), user_api="blas")
    if config.inter_op_parallelism_threads < 0:
        raise InvalidArgumentError(
            message="inter_op_parallelism_threads must be 0 (the default) or more, got "
            f"{config.inter_op_parallelism_threads}"
        )


@contextlib.contextmanager
def limited_threads(count: int) -> Iterator[None]:
    """Has kernels that are bound meanwhile, and BLAS, use so many threads; then as many as before.

    For a process that is not ours, such as Spark's Python worker: the setting is the process's.

    Args:
        count: How many, 1 or more; BLAS is not given more than the processors there are.
    """
    import threadpoolctl

    from sparkflow_runtime.codegen.machine import threads

    before = threads.set_count(count)
    try:
        with threadpoolctl.threadpool_limits(threads.count(), user_api="blas"):
            yield
    finally:
        threads.set_count(before)
