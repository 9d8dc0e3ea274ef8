"""Elements per second of `tf.data`: sparkflow and TensorFlow.

    python benchmarks/data_pipeline.py [--record] [--tensorflow-python P]

The elements are 100,000 images of 28 x 28 float32; or 20,000 examples of 28 floats, a number and
one to five words in a TFRecord file, and as many lines of 12 fields. TensorFlow is left out if it
is not installed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from competitor import compare, started
from report import Report, Table, add_call_options, rate_text, ratio_text
from timing import Measured, measured

COMPETITORS = ("sparkflow", "TensorFlow")
CASES = {
    "batch": "batch(128)",
    "batch_map": "shuffle(10000).batch(128).map(x * 2 - 1)",
    "map_batch": "shuffle(10000).map(x * 2 - 1).batch(128).prefetch(1)",
    "parallel": "the same with num_parallel_calls=2",
    "examples": "TFRecords: batch(128).map(parse_example)",
    "single_examples": "TFRecords: map(parse_single_example).batch(128)",
    "single_words": "the same with a sparse feature of words",
    "csv": "lines: batch(128).map(decode_csv)",
    "single_csv": "lines: map(decode_csv).batch(128)",
    "words": "lines: map(split, hash).padded_batch(128)",
    "columns": "lines: batch(128).map(decode_csv), linear_model and input_layer of columns",
}
BATCH = 128
PACKAGES = ("numpy", "tensorflow")
_COMPETITOR = str(Path(__file__).with_name("data_competitor.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_call_options(parser, 9, 0.5, CASES)
    parser.add_argument(
        "--tensorflow-python", default=sys.executable, help="the Python that has TensorFlow"
    )
    options = parser.parse_args()
    pythons = {"TensorFlow": options.tensorflow_python}
    report = Report("data_pipeline", PACKAGES, options)
    rows = []
    for threads in options.threads:
        commands = {name: [_COMPETITOR, name, str(threads)] for name in COMPETITORS}
        with started(commands, threads, pythons) as competitors:
            for case in options.cases:
                times = compare(competitors, case, options.rounds, options.round_s)
                rows.append([CASES[case], str(threads), *_cells(times)])
    table = Table(["case", "threads", *COMPETITORS, "sparkflow / TensorFlow"], rows)
    report.finish({f"Elements per second, median of {options.rounds} rounds": table})


def _cells(times: dict[str, Measured]) -> list[str]:
    rates = {name: _rate(time) for name, time in times.items()}
    shown = [rate_text(rates[name]) if name in rates else "-" for name in COMPETITORS]
    peer = rates.get("TensorFlow")
    return [*shown, "-" if peer is None else ratio_text(rates["sparkflow"].over(peer))]


def _rate(time: Measured) -> Measured:
    return measured([BATCH / seconds for seconds in time.rounds])


if __name__ == "__main__":
    main()
