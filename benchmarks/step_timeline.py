"""The use of time in a training step on every thread: a picture and a table.

    python benchmarks/step_timeline.py --case mlp --threads 2 --picture step.svg

Runs a case of `peers.py` in this process, with a clock around each kernel of the plan and each part
of it that a thread executes. Shows the recorded step of median length: when each kernel ran, what
each thread did at that time, and the gaps between kernels. The clocks cost about 0.2 µs per kernel.
Pictures need matplotlib.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine
from report import Report, Table, add_options

CASES = ("mlp", "mlp_large", "cnn", "embedding", "lstm")
CASES += ("transformer", "residual_nhwc", "residual_nchw", "recommender")
PACKAGES = ("numpy", "llvmlite")
WARM_UP = 30
_MOST_PARTS = 1 << 14
_RECORDER = """
declare i32 @clock_gettime(i32, ptr)
declare i64 @pthread_self()

define internal i64 @now() {
  %time = alloca [2 x i64]
  call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %at_rest = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %at_rest
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}

define void @part(ptr %job, i64 %part) {
  %function = load ptr, ptr %job
  %at_argument = getelementptr ptr, ptr %job, i64 1
  %argument = load ptr, ptr %at_argument
  %at_recorder = getelementptr ptr, ptr %job, i64 2
  %recorder = load ptr, ptr %at_recorder
  %start = call i64 @now()
  call void %function(ptr %argument, i64 %part)
  %stop = call i64 @now()
  %thread = call i64 @pthread_self()
  %at_count = getelementptr i64, ptr %recorder, i64 2
  %number = atomicrmw add ptr %at_count, i64 1 seq_cst
  %wrapped = and i64 %number, MASK
  %place = mul i64 %wrapped, 3
  %first = add i64 %place, 3
  %at_start = getelementptr i64, ptr %recorder, i64 %first
  store i64 %start, ptr %at_start
  %second = add i64 %place, 4
  %at_stop = getelementptr i64, ptr %recorder, i64 %second
  store i64 %stop, ptr %at_stop
  %third = add i64 %place, 5
  %at_thread = getelementptr i64, ptr %recorder, i64 %third
  store i64 %thread, ptr %at_thread
  ret void
}

define void @run(ptr %recorder, ptr %function, ptr %argument, i32 %parts) {
  %job = alloca [3 x ptr]
  store ptr %function, ptr %job
  %at_argument = getelementptr ptr, ptr %job, i64 1
  store ptr %argument, ptr %at_argument
  %at_recorder = getelementptr ptr, ptr %job, i64 2
  store ptr %recorder, ptr %at_recorder
  %run = load ptr, ptr %recorder
  %at_control = getelementptr ptr, ptr %recorder, i64 1
  %control = load ptr, ptr %at_control
  call void %run(ptr %control, ptr @part, ptr %job, i32 %parts)
  ret void
}
""".replace("MASK", str(_MOST_PARTS - 1))
"""A wrapper of the thread pool with a clock around each part."""


@dataclass(frozen=True, slots=True)
class Span:
    """An interval in nanoseconds, with a kernel's name or a thread's number."""

    name: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its kernels in order, and the parts that threads executed."""

    start: int
    stop: int
    kernels: Sequence[Span]
    parts: Sequence[Span]

    @property
    def length(self) -> int:
        """The duration in nanoseconds."""
        return self.stop - self.start


class Recorder:
    """Installs the clocks; create it before anything is compiled."""

    def __init__(self) -> None:
        from sparkflow_runtime.codegen.machine import native, threads
        from sparkflow_runtime.compiler.planned import Planned

        self._kernels: list[tuple[str, int, int]] = []
        self._memory = (ctypes.c_int64 * (3 + 3 * _MOST_PARTS))()
        self._pool_addresses = threads.pool_addresses
        self._linked = native.link(_RECORDER, ("run", "part"))
        threads.pool_addresses = native.pool_addresses = self._addresses  # type: ignore[assignment,attr-defined]  # ours for theirs
        self._new_frame = Planned.new_frame
        Planned.new_frame = lambda planned: self._frame(planned)  # type: ignore[method-assign]  # the same

    def _addresses(self) -> tuple[int, int]:
        self._memory[0], self._memory[1] = self._pool_addresses()
        return self._linked.address("run"), ctypes.addressof(self._memory)

    def _frame(self, planned: Any) -> Any:
        frame = self._new_frame(planned)
        names = frame.__globals__
        for register, called in planned.calls.items():
            names[register] = self._timed(called.node.op, names[register])
        return frame

    def _timed(self, name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        clock, append = time.perf_counter_ns, self._kernels.append

        def run(*arguments: Any) -> Any:
            start = clock()
            result = kernel(*arguments)
            append((name, start, clock()))
            return result

        return run

    def step(self, call: Callable[[], Any]) -> Step:
        """Runs one step."""
        self._kernels.clear()
        self._memory[2] = 0
        start = time.perf_counter_ns()
        call()
        stop = time.perf_counter_ns()
        return Step(start, stop, [Span(*each) for each in self._kernels], list(self._parts()))

    def _parts(self) -> Iterator[Span]:
        main = ctypes.CDLL(None).pthread_self
        main.restype = ctypes.c_int64
        threads = {main(): "1"}
        found = []
        for number in range(min(self._memory[2], _MOST_PARTS)):
            start, stop, thread = self._memory[3 + 3 * number : 6 + 3 * number]
            found.append((start, stop, thread))
        for start, stop, thread in sorted(found):
            name = threads.setdefault(thread, str(len(threads) + 1))
            yield Span(name, start, stop)


def main() -> None:
    machine.clean_own_environment()
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=300)
    parser.add_argument("--case", default="mlp", choices=CASES)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--picture", type=Path, help="an SVG or PNG file")
    options = parser.parse_args()
    report = Report("step_timeline", PACKAGES, options)
    steps = recorded(options.case, options.threads, options.rounds)
    steps.sort(key=lambda step: step.length)
    step = steps[len(steps) // 2]
    caption = (
        f"{options.case} on {options.threads} threads, the median of {len(steps)} steps: "
        f"{step.length / 1e3:.0f} µs"
    )
    report.finish({caption: table(steps, step, options.threads)})
    if options.picture:
        draw(step, caption, options.picture)


def recorded(case: str, threads: int, count: int) -> list[Step]:
    """Records a number of steps of a case of `peers.py`."""
    import peers_competitor

    import sparkflow as tf

    recorder = Recorder()
    made = peers_competitor.framework_case(tf, threads, threads)(case)
    assert made is not None
    call = made.call
    for _ in range(WARM_UP):
        call()
    return [recorder.step(call) for _ in range(count)]


def table(steps: Sequence[Step], shown: Step, threads: int) -> Table:
    """Returns for each kernel its time, that of each thread's parts, and the utilization."""
    alike = [step for step in steps if len(step.kernels) == len(shown.kernels)]
    rows = []
    total = statistics.median(step.length for step in alike)
    inside = 0.0
    for number, kernel in enumerate(shown.kernels):
        taken = statistics.median(
            step.kernels[number].stop - step.kernels[number].start for step in alike
        )
        inside += taken
        busy = statistics.median(_busy(step, step.kernels[number]) for step in alike)
        share = busy / taken / threads
        rows.append([str(number + 1), kernel.name, _us(taken), _us(busy), f"{share:.0%}"])
    rows.append(["", "between kernels", _us(total - inside), _us(total - inside), ""])
    return Table(["", "kernel", "µs", "µs of all threads", "of the processors"], rows)


def _busy(step: Step, kernel: Span) -> int:
    parts = [p for p in step.parts if p.start >= kernel.start and p.stop <= kernel.stop]
    return sum(p.stop - p.start for p in parts) or kernel.stop - kernel.start


def _us(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e3:.1f}"


def draw(step: Step, caption: str, path: Path) -> None:
    """Draws the kernels in one row, and each thread's parts in rows below."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    lanes = ["kernels", *sorted({f"thread {part.name}" for part in step.parts})]
    figure, axes = pyplot.subplots(figsize=(18, 1.2 + 0.8 * len(lanes)))
    colours = pyplot.get_cmap("tab20")
    for number, kernel in enumerate(step.kernels):
        colour = colours(number % 20)
        left, width = (kernel.start - step.start) / 1e3, (kernel.stop - kernel.start) / 1e3
        axes.barh(
            0, width, left=left, height=0.7, color=colour, label=f"{number + 1} {kernel.name[:50]}"
        )
        axes.text(left + width / 2, 0, str(number + 1), ha="center", va="center", fontsize=7)
        for part in step.parts:
            if part.start >= kernel.start and part.stop <= kernel.stop:
                axes.barh(
                    lanes.index(f"thread {part.name}"),
                    (part.stop - part.start) / 1e3,
                    left=(part.start - step.start) / 1e3,
                    height=0.7,
                    color=colour,
                )
    axes.set_yticks(range(len(lanes)), lanes)
    axes.invert_yaxis()
    axes.set_xlim(0, step.length / 1e3)
    axes.set_xlabel("µs")
    axes.set_title(caption)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), ncol=4, fontsize=7)
    figure.savefig(path, bbox_inches="tight")


if __name__ == "__main__":
    main()
