"""Steps on a GPU, compared with PyTorch on the same card and with the limits of the card.

    python benchmarks/gpu.py [--record]

Data and parameters are random numbers on the card; a step feeds and fetches nothing. Both limits
are measured: bytes by copying a large array, operations by a large TF32 matrix product. Without a
GPU, it prints a message and exits.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import gpu_cases
import gpu_torch
from gpu_cases import Case
from report import Report, Table, add_options, ratio_text, time_text
from timing import Measured, measured

from sparkflow_runtime.device.device import count_gpus

OURS = "sparkflow"
WAYS = (gpu_torch.EAGER, gpu_torch.COMPILED, gpu_torch.RECORDED)
PACKAGES = ("numpy", "cupy-cuda12x", "cupy-cuda13x", "nvidia-cudnn-frontend", "torch")
WARM_UP = 12
"""Steps before the first that counts: plans, kernels, recordings."""

Steps = Callable[[int], float]
"""Runs a number of steps and returns the seconds per step."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50, help="per round; default: %(default)s")
    parser.add_argument("--cases", nargs="*", help="parts of their names; default: all")
    parser.add_argument("--shrink", type=int, default=1, help="so many times fewer rows")
    add_options(parser, rounds=7)
    options = parser.parse_args()
    if not count_gpus():
        print("no GPU")
        return
    report = Report("gpu", PACKAGES, options)
    cupy = importlib.import_module("cupy")
    bytes_per_s, operations_per_s = limits(cupy)
    rows = []
    for case in gpu_cases.cases(options.shrink):
        if options.cases and not any(part in case.name for part in options.cases):
            continue
        times = measure(cupy, case, options.rounds, options.steps)
        limit_s = max(case.bytes / bytes_per_s, case.operations / operations_per_s)
        rows.append(row(case, times, limit_s))
    headings = ("case", OURS, *WAYS, "to torch", "to compiled", "to recorded", "limit", "share")
    print(f"limits: {bytes_per_s / 1e9:.0f} GB/s, {operations_per_s / 1e12:.0f} TFLOP/s in TF32")
    report.finish({"steps on a GPU": Table(headings, rows)})


def limits(cupy: Any, size: int = 1 << 28, order: int = 8192) -> tuple[float, float]:
    """Returns bytes per second of a copy (both ways) and operations per second of a product."""
    source, target = cupy.ones(size, cupy.float32), cupy.empty(size, cupy.float32)
    copy_s = _timed(cupy, lambda: cupy.copyto(target, source), 20)
    a = cupy.random.standard_normal((order, order), dtype=cupy.float32)
    out = cupy.empty_like(a)
    products = importlib.import_module("sparkflow_runtime.device.gpu_products")
    multiply = products.GpuProducts(cupy).multiply
    product_s = _timed(cupy, lambda: multiply(a, a, out), 20)
    return 8 * size / copy_s, 2 * order**3 / product_s


def measure(cupy: Any, case: Case, rounds: int, steps: int) -> dict[str, Measured]:
    """Measures the time of a step by each competitor, alternately."""
    competitors: dict[str, Steps] = {OURS: _ours(cupy, case)}
    try:
        torch = importlib.import_module("torch")
        if torch.cuda.is_available():
            for way in WAYS:
                competitors[way] = _torch(torch, case, way)
    except ImportError:
        print("torch is not installed: nothing to compare with")
    for run in competitors.values():
        run(WARM_UP)
    found: dict[str, list[float]] = {name: [] for name in competitors}
    for _ in range(rounds):
        for name, run in competitors.items():
            found[name].append(run(steps))
    return {name: measured(times) for name, times in found.items()}


def row(case: Case, times: dict[str, Measured], limit_s: float) -> Sequence[str]:
    """Returns a row of the table."""
    ours = times[OURS]
    cells = [f"{case.name} {'×'.join(map(str, case.sizes))}", time_text(ours)]
    others = [times.get(name) for name in WAYS]
    cells += ["-" if other is None else time_text(other) for other in others]
    cells += ["-" if other is None else ratio_text(ours.over(other)) for other in others]
    if not limit_s:
        return [*cells, "-", "-"]
    return [*cells, f"{limit_s * 1e6:.3g} µs", f"{limit_s / ours.median:.0%}"]


def _ours(cupy: Any, case: Case) -> Steps:
    """Sessions use their own streams, so the clock stops when the whole card is idle."""
    run = session_step(case)

    def steps(count: int) -> float:
        cupy.cuda.Device(0).synchronize()
        start = time.perf_counter()
        for _ in range(count):
            run()
        cupy.cuda.Device(0).synchronize()
        return (time.perf_counter() - start) / count

    return steps


def session_step(case: Case) -> Callable[[], Any]:
    """Returns a step of sparkflow with initialized variables."""
    tf = importlib.import_module("sparkflow")
    graph = tf.Graph()
    with graph.as_default(), tf.device("/gpu:0"):
        step = case.step(tf, *case.sizes)
        start = tf.global_variables_initializer()
    session = tf.Session(graph=graph, config=tf.ConfigProto(allow_soft_placement=True))
    session.run(start)
    made: Callable[[], Any] = session.make_callable(step)
    return made


def _torch(torch: Any, case: Case, way: str) -> Steps:
    run = gpu_torch.step(torch, case, way)

    def steps(count: int) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            run()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / count

    return steps


def _timed(cupy: Any, work: Callable[[], Any], count: int) -> float:
    """Returns the seconds per call over a number of calls on the current stream, by events."""
    begin, end = (cupy.cuda.Event() for _ in range(2))
    work()
    begin.record()
    for _ in range(count):
        work()
    end.record()
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(begin, end)) / 1e3 / count


if __name__ == "__main__":
    main()
