"""Matrix products: GFLOP/s of our generated machine code, compared with numpy's BLAS and others.

The shapes are those of the networks in `mlp.py` and `cnn.py`, forward and backward, and a cube of
2048, whose best result is the "peak" to which the others are compared.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from competitor import add_interpreter_options, compare, interpreters, started
from matrix_products_competitor import CASES, PEAK, Product
from report import Report, Table, add_call_options, rate_text, ratio_text
from timing import Measured, measured

OURS = "sparkflow"
COMPETITORS = (OURS, "numpy", "TensorFlow", "torch")
PACKAGES = ("numpy", "llvmlite", "tensorflow", "torch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_call_options(parser, 9, 0.1, CASES)
    add_interpreter_options(parser)
    options = parser.parse_args()
    report = Report("matrix_products", PACKAGES, options)
    script = str(Path(__file__).with_name("matrix_products_competitor.py"))
    rows: list[list[str]] = []
    for threads in options.threads:
        commands = {name: [script, name, str(threads)] for name in COMPETITORS}
        peak = 0.0
        with started(commands, threads, interpreters(options)) as competitors:
            # The cube always comes first, because the others are fractions of it.
            for name in dict.fromkeys([PEAK, *options.cases]):
                times = compare(competitors, name, options.rounds, options.round_s)
                rates = {who: rate(CASES[name], each) for who, each in times.items()}
                if name == PEAK:
                    peak = max(each.median for each in rates.values())
                rows.append(cells(name, threads, rates, peak))
                print(name, threads, "done", file=sys.stderr)
    headings = ["product", "threads", *COMPETITORS]
    headings += [f"× {name}" for name in COMPETITORS[1:]]
    caption = f"GFLOP/s, median of {options.rounds} rounds; × is how many times as fast ours is"
    report.finish({caption: Table([*headings, "of the peak"], rows)})


def rate(product: Product, times: Measured) -> Measured:
    """GFLOP/s."""
    return measured([product.operations / seconds / 1e9 for seconds in times.rounds])


def cells(name: str, threads: int, rates: dict[str, Measured], peak: float) -> list[str]:
    """Returns a row of the table."""
    ours = rates[OURS]
    found = [name, str(threads)]
    found += [rate_text(rates[who], 1) if who in rates else "-" for who in COMPETITORS]
    others = COMPETITORS[1:]
    found += [ratio_text(ours.over(rates[who])) if who in rates else "-" for who in others]
    return [*found, f"{ours.median / peak:.0%}"]


if __name__ == "__main__":
    main()
