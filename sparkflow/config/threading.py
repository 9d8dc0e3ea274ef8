"""`tf.config.threading`: numbers of threads of sessions without a ConfigProto."""

from __future__ import annotations

from sparkflow.session_defaults import defaults


def get_inter_op_parallelism_threads() -> int:
    """What was set, 0 if nothing was; it changes nothing."""
    return defaults.config.inter_op_parallelism_threads


def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Is kept for programs that set it, and changes nothing.

    Nodes of a device run one after the other and divide their work among the threads of
    `set_intra_op_parallelism_threads`; only what waits lets others go on.
    """
    defaults.config.inter_op_parallelism_threads = num_threads


def get_intra_op_parallelism_threads() -> int:
    """How many threads one node may use; 0 leaves it to the runtime."""
    return defaults.config.intra_op_parallelism_threads


def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Says how many threads one node may use."""
    defaults.config.intra_op_parallelism_threads = num_threads
