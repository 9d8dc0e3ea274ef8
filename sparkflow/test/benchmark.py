"""`tf.test.Benchmark`: methods whose names start with `benchmark`, timed and reported."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime.protos.config_pb2 import ConfigProto


class Benchmark:
    """The base class of benchmarks; `tf.test.main` runs them when given `--benchmarks=regexp`.

    Reports go to stdout, and as JSON lines into `$TEST_REPORT_FILE_PREFIX` + name where that is
    set.
    """

    registered: ClassVar[list[type[Benchmark]]] = []
    """Every subclass that has benchmark methods."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if any(name.startswith("benchmark") for name in dir(cls)):
            Benchmark.registered.append(cls)

    def evaluate(self, tensors: Any) -> Any:
        """The values of tensors in the default session."""
        from sparkflow.graph.scopes import get_default_session

        session = get_default_session()
        if session is None:
            raise ValueError("There is no default session to evaluate in")
        return session.run(tensors)

    def run_op_benchmark(
        self,
        sess: Any,
        op_or_tensor: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        burn_iters: int = 2,
        min_iters: int = 10,
        store_trace: bool = False,
        store_memory_usage: bool = True,
        name: str | None = None,
        extras: Mapping[str, Any] | None = None,
        mbs: float = 0,
    ) -> dict[str, Any]:
        """Times runs of an operation and reports their median.

        Args:
            sess: The session.
            op_or_tensor: What is run.
            feed_dict: Fed in each run.
            burn_iters: Runs before the measured ones.
            min_iters: Measured runs.
            store_trace: Accepted; use `RunOptions(trace_level=FULL_TRACE)` for a trace.
            store_memory_usage: Accepted; memory is not measured.
            name: Of the report; that of the calling method when None.
            extras: Further entries of the report.
            mbs: Megabytes that one run moves, to report a throughput.

        Returns:
            `iters`, `wall_time` and `cpu_time` (seconds), `throughput` (MB/s), `extras`, `name`.
        """
        for _ in range(burn_iters):
            sess.run(op_or_tensor, feed_dict=feed_dict)
        seconds = []
        for _ in range(min_iters):
            start = time.perf_counter()
            sess.run(op_or_tensor, feed_dict=feed_dict)
            seconds.append(time.perf_counter() - start)
        median = float(np.median(seconds)) if seconds else -1.0
        result: dict[str, Any] = {
            "iters": min_iters,
            "wall_time": median,
            "cpu_time": -1.0,
            "throughput": mbs / median if median > 0 else -1.0,
            "extras": {
                **(extras or {}),
                **({"wall_time_mean": float(np.mean(seconds))} if seconds else {}),
            },
            "name": name or self._caller(),
        }
        self.report_benchmark(**{**result, "throughput": result["throughput"] if mbs else None})
        return result

    def report_benchmark(
        self,
        iters: int | None = None,
        cpu_time: float | None = None,
        wall_time: float | None = None,
        throughput: float | None = None,
        extras: Mapping[str, Any] | None = None,
        name: str | None = None,
        metrics: Any = None,
    ) -> None:
        """Writes one result.

        Args:
            iters: How often it ran.
            cpu_time: Processor seconds per run.
            wall_time: Seconds per run.
            throughput: MB per second.
            extras: Further entries.
            name: That of the calling method when None.
            metrics: A list of dictionaries with `name`, `value` and bounds.
        """
        given = {
            "iters": iters,
            "cpu_time": cpu_time,
            "wall_time": wall_time,
            "throughput": throughput,
            "extras": dict(extras) if extras else None,
            "metrics": metrics,
        }
        label = f"{type(self).__name__}.{name or self._caller()}"
        entry = {"name": label, **{k: v for k, v in given.items() if v is not None}}
        line = json.dumps(entry)
        sys.stdout.write(f"entry {line}\n")
        prefix = os.environ.get("TEST_REPORT_FILE_PREFIX")
        if prefix:
            with open(prefix + re.sub(r"[^\w.]+", "__", label), "a", encoding="utf-8") as report:
                report.write(line + "\n")

    @staticmethod
    def _caller() -> str:
        """The method of the benchmark that is running."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_name.startswith("benchmark"):
                return str(frame.f_code.co_name)
            frame = frame.f_back
        return "unknown"


def run_benchmarks(pattern: str) -> int:
    """Runs the registered benchmarks that a regular expression finds; `all` or `.` for every one.

    Returns:
        How many ran.
    """
    wanted = re.compile("" if pattern == "all" else pattern)
    count = 0
    for cls in Benchmark.registered:
        for method in sorted(name for name in dir(cls) if name.startswith("benchmark")):
            if wanted.search(f"{cls.__module__}.{cls.__name__}.{method}"):
                getattr(cls(), method)()
                count += 1
    return count


def benchmark_config() -> ConfigProto:
    """Session options for benchmarks."""
    return ConfigProto()
