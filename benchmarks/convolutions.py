"""Convolutions and pooling by kernel, forward and both gradients, compared with other libraries.

    python benchmarks/convolutions.py --torch-python /path/to/python [--record]

The layers are those of the network in `cnn.py`, and some of networks for larger images. The "peak"
to which convolutions are compared is the best result of any competitor for a matrix product.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from competitor import add_interpreter_options, compare, interpreters, started
from convolutions_competitor import CASES, PEAK, PEAK_SIZE
from report import Report, Table, add_call_options, ratio_text, time_text
from timing import Measured

OURS = "sparkflow"
COMPETITORS = (OURS, "TensorFlow", "torch")
PACKAGES = ("numpy", "llvmlite", "tensorflow", "torch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_call_options(parser, 9, 0.1, CASES)
    add_interpreter_options(parser)
    options = parser.parse_args()
    report = Report("convolutions", PACKAGES, options)
    script = str(Path(__file__).with_name("convolutions_competitor.py"))
    rows: list[list[str]] = []
    for threads in options.threads:
        commands = {name: [script, name, str(threads)] for name in COMPETITORS}
        with started(commands, threads, interpreters(options)) as competitors:
            peaks = compare(competitors, PEAK, options.rounds, options.round_s)
            peak = 2 * PEAK_SIZE**3 / min(each.median for each in peaks.values())
            rows.append([PEAK, str(threads), *cells(peaks), f"{peak / 1e9:.1f}", "100%"])
            for name in options.cases:
                times = compare(competitors, name, options.rounds, options.round_s)
                rows.append([name, str(threads), *cells(times), *rate(name, times[OURS], peak)])
                print(name, threads, "done", file=sys.stderr)
    headings = ["kernel", "threads", *COMPETITORS]
    headings += [f"{name} / {OURS}" for name in COMPETITORS[1:]]
    caption = f"Time per call, median of {options.rounds} rounds"
    report.finish({caption: Table([*headings, "our GFLOP/s", "of the peak"], rows)})


def cells(times: dict[str, Measured]) -> list[str]:
    """Returns times, and the speedup of ours over each."""
    found = [time_text(times[name]) if name in times else "-" for name in COMPETITORS]
    others = COMPETITORS[1:]
    return found + [
        ratio_text(times[name].over(times[OURS])) if name in times else "-" for name in others
    ]


def rate(name: str, time: Measured, peak: float) -> list[str]:
    """Returns GFLOP/s and the fraction of the peak, for cases that multiply."""
    layer, _ = CASES[name]
    if layer.is_pooling:
        return ["-", "-"]
    found = layer.operations / time.median
    return [f"{found / 1e9:.1f}", f"{found / peak:.0%}"]


if __name__ == "__main__":
    main()
