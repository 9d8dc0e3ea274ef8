"""The cost of loops: `tf.while_loop`, its gradient, and recurrent networks, compared with others.

    python benchmarks/loops.py [--record] [--jax-python P] [--torch-python P]

JAX runs `lax.scan` under jit, PyTorch its own LSTM, or a hand-written one under `torch.compile`.
Competitors that are not installed are left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from competitor import add_interpreter_options, compare, interpreters, started
from report import Report, Table, add_call_options, ratio_text, time_text

COMPETITORS = ("sparkflow", "TensorFlow", "JAX", "torch", "torch.compile")
CASES = {
    "while": "while_loop, 1,000 turns of y * a + x on (64, 128)",
    "while_gradient": "its gradient",
    "cell": "while_loop, 128 turns of tanh(h w + x), (8, 16)",
    "cell_gradient": "its gradient by w and x",
    "lstm": "LSTM of 128 units, 50 steps, batch 64, SGD step",
    "dynamic_rnn": "the same by tf.nn.dynamic_rnn, loss of all outputs",
    "any_length": "dynamic_rnn, GRU of 40 units, batches of 20 sequences of 20 to 60 steps",
}
PACKAGES = ("numpy", "tensorflow")
_COMPETITOR = str(Path(__file__).with_name("loops_competitor.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_call_options(parser, 9, 0.5, CASES)
    parser.add_argument("--competitors", nargs="+", default=list(COMPETITORS), choices=COMPETITORS)
    add_interpreter_options(parser, "jax")
    options = parser.parse_args()
    pythons = interpreters(options)
    report = Report("loops", PACKAGES, options)
    rows = []
    for threads in options.threads:
        commands = {name: [_COMPETITOR, name, str(threads)] for name in options.competitors}
        with started(commands, threads, pythons) as competitors:
            for case in options.cases:
                times = compare(competitors, case, options.rounds, options.round_s)
                others = {name: time for name, time in times.items() if name != "sparkflow"}
                found = [time_text(times[n]) if n in times else "-" for n in options.competitors]
                best = min(others.values(), key=lambda time: time.median, default=None)
                ours = times["sparkflow"]
                ratio = "-" if best is None else ratio_text(best.over(ours))
                rows.append([CASES[case], str(threads), *found, ratio])
    table = Table(["case", "threads", *options.competitors, "best other / sparkflow"], rows)
    report.finish({f"Time per call, median of {options.rounds} rounds": table})


if __name__ == "__main__":
    main()
