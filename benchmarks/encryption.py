"""The cost of TLS: exchanges and training over TCP on loopback, alternately with and without.

    python benchmarks/encryption.py [--record]

One parameter server and two workers, each a process with one thread, driven by step loops. Between
machines the network is slower than loopback, so TLS costs relatively less. Within one machine tasks
use unix sockets and shared memory, without TLS.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import machine
from competitor import compare, started
from parameter_servers import EXCHANGES
from report import Report, Table, add_options, ratio_text, time_text

PLAIN, ENCRYPTED = "tcp", "tls"
TRAINING = ("mlp_async", "mlp_sync", "embedding_async")
GOAL = 1.3
"""Maximum ratio of the training times with and without TLS."""


def main() -> None:
    machine.clean_own_environment()
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=7)
    cases = [*EXCHANGES, *TRAINING]
    parser.add_argument("--round-s", type=float, default=0.3, help="seconds of steps per round")
    parser.add_argument("--case", nargs="+", default=cases, choices=cases)
    options = parser.parse_args()
    report = Report("encryption", ("numpy", "cryptography"), options)
    script = str(Path(__file__).with_name("ps_loop_competitor.py"))
    commands = {name: [script, name] for name in (PLAIN, ENCRYPTED)}
    rows = []
    with started(commands, 1) as competitors:
        for case in options.case:
            times = compare(competitors, case, options.rounds, options.round_s)
            ratio = times[ENCRYPTED].over(times[PLAIN])
            verdict = "met" if ratio.median <= GOAL else "missed"
            rows.append(
                [
                    case,
                    time_text(times[PLAIN]),
                    time_text(times[ENCRYPTED]),
                    ratio_text(ratio),
                    f"{GOAL}: {verdict}" if case in TRAINING else "",
                ]
            )
    headings = ["case", PLAIN, ENCRYPTED, f"{ENCRYPTED} / {PLAIN}", "goal"]
    report.finish({f"Time per step, median of {options.rounds} rounds": Table(headings, rows)})


if __name__ == "__main__":
    main()
