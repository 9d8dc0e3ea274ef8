"""A process's settings of threads and BLAS: by its environment, and later.

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
"""Some container images set it to a slower kernel than OpenBLAS would choose."""
THREAD_VARIABLES: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Read by our kernels (`codegen.machine.threads.VARIABLE`) and by numerical libraries."""


def worker_environment(environment: Mapping[str, str], count: int) -> dict[str, str]:
    """Returns the environment for a process that hosts a worker.

    Args:
        environment: The environment of the process that starts it.
        count: How many threads our kernels and numerical libraries may use.
    """
    child = {name: value for name, value in environment.items() if name != SLOWER_KERNEL}
    child.update(dict.fromkeys(THREAD_VARIABLES, str(count)))
    return child


def apply_threads(config: ConfigProto) -> None:
    """Applies `intra_op_parallelism_threads`; does nothing if it is 0.

    As in TensorFlow, it applies to the whole process, whichever session sets it: to kernels bound
    from now on, and to all uses of BLAS, as numpy knows no sessions. `inter_op_parallelism_threads`
    is checked and changes nothing: nodes of a partition run one after another and divide their work
    among these threads.

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
    """Sets the number of threads of BLAS and of kernels bound meanwhile; restores it at the end.

    For a process that is not ours, such as Spark's Python worker: it applies to all of it.

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
