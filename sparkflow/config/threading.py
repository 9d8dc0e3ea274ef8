"""`tf.config.threading`: numbers of threads of sessions without a ConfigProto."""

from __future__ import annotations

from sparkflow.session_defaults import defaults


def get_inter_op_parallelism_threads() -> int:
    """The value that was set, 0 if none was; it has no effect."""
    return defaults.config.inter_op_parallelism_threads


def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Stores the value, for programs that set it; it has no effect.

    Nodes of a device run one after the other and divide their work among the threads of
    `set_intra_op_parallelism_threads`; only what waits lets others go on.
    """
    defaults.config.inter_op_parallelism_threads = num_threads


def get_intra_op_parallelism_threads() -> int:
    """Maximum number of threads that one node uses; 0 leaves it to the runtime."""
    return defaults.config.intra_op_parallelism_threads


def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Sets the maximum number of threads that one node uses."""
    defaults.config.intra_op_parallelism_threads = num_threads
