"""`tf.config.threading`: numbers of threads of sessions without a ConfigProto."""

from __future__ import annotations

from sparkflow.config.devices import defaults


def get_inter_op_parallelism_threads() -> int:
    """How many nodes of a step may run at once; 0 leaves it to the runtime."""
    return defaults.config.inter_op_parallelism_threads


def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Says how many nodes of a step may run at once."""
    defaults.config.inter_op_parallelism_threads = num_threads


def get_intra_op_parallelism_threads() -> int:
    """How many threads one node may use; 0 leaves it to the runtime."""
    return defaults.config.intra_op_parallelism_threads


def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Says how many threads one node may use."""
    defaults.config.intra_op_parallelism_threads = num_threads
