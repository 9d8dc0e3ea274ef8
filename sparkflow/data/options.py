"""`tf.data.Options`: hints that do not change elements."""

from __future__ import annotations

from typing import Any


class _Advice:
    """Base of options: attributes that may be set and are kept."""

    _names: tuple[str, ...] = ()

    def __init_subclass__(cls) -> None:
        for name in cls._names:
            setattr(cls, name, None)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._names:
            raise AttributeError(f"Cannot set the property {name} on {type(self).__name__}.")
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._names)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]  # they may be changed


class OptimizationOptions(_Advice):
    """Rewrites of datasets by TensorFlow; nothing is rewritten here."""

    _names = (
        "apply_default_optimizations",
        "autotune",
        "autotune_algorithm",
        "autotune_buffers",
        "autotune_cpu_budget",
        "filter_fusion",
        "filter_with_random_uniform_fusion",
        "hoist_random_uniform",
        "map_and_batch_fusion",
        "map_and_filter_fusion",
        "map_fusion",
        "map_parallelization",
        "filter_parallelization",
        "inject_prefetch",
        "map_vectorization",
        "noop_elimination",
        "parallel_batch",
        "seq_interleave_prefetch",
        "shuffle_and_repeat_fusion",
    )


class ThreadingOptions(_Advice):
    """Thread counts of TensorFlow; here each transformation has its own argument."""

    _names = ("max_intra_op_parallelism", "private_threadpool_size")


class StatsOptions(_Advice):
    """Statistics that TensorFlow collects; nothing is collected here."""

    _names = ("aggregator", "counter_prefix", "latency_all_edges", "prefix")


class DistributeOptions(_Advice):
    """Distribution of a dataset over workers by TensorFlow; use `shard` here."""

    _names = ("auto_shard", "auto_shard_policy", "num_devices")


class Options(_Advice):
    """Options of a dataset, see `Dataset.with_options`. They do not change elements."""

    _names = (
        "experimental_autotune",
        "experimental_deterministic",
        "experimental_distribute",
        "experimental_external_state_policy",
        "experimental_optimization",
        "experimental_slack",
        "dataset_name",
        "experimental_service",
        "experimental_stats",
        "experimental_symbolic_checkpoint",
        "experimental_threading",
        "experimental_warm_start",
        "framework_type",
        "autotune",
        "deterministic",
        "threading",
    )

    def __init__(self) -> None:
        self.experimental_distribute = DistributeOptions()
        self.experimental_optimization = OptimizationOptions()
        self.experimental_stats = StatsOptions()
        self.experimental_threading = ThreadingOptions()
        self.threading = ThreadingOptions()

    def merge(self, options: Options) -> Options:
        """Returns these options merged with those set in `options`.

        Raises:
            ValueError: Both set an option, to different values.
        """
        merged = Options()
        for name in self._names:
            mine, other = getattr(self, name), getattr(options, name)
            default = getattr(Options(), name)
            if mine != default and other != default and mine != other:
                raise ValueError(f"Cannot merge incompatible values of option: {name}")
            setattr(merged, name, mine if other == default else other)
        return merged
