"""Simulated throughput of up to 1,000 workers, with measured constants and given networks.

    python benchmarks/simulate_scaling.py                          # tables
    python benchmarks/simulate_scaling.py --pictures docs/images   # and pictures; needs matplotlib
    python benchmarks/simulate_scaling.py --validate --record      # beside real clusters
    python benchmarks/simulate_scaling.py --measure                # measures the constants anew

docs/scaling.md describes the simulation and how to choose the number of parameter servers.
"""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

import machine
from report import Report, Table, add_options
from scaling.model import NETWORKS, NONE, USUAL, Channel, Constants, Model, Network
from scaling.simulation import WORKER_STEPS, ring_steps_per_s, steps_per_s

PACKAGES = ("numpy", "matplotlib")
SHOWN = ("dense", "sparse")
PS_COUNTS = (1, 4, 16, 64)
WORKERS = (1, 3, 10, 30, 100, 300, 1000)
TABLE_WORKERS = (10, 100, 1000)
LOOPBACK = Network("loopback", math.inf, 0.0)
VALIDATED = {
    "small": ("mlp_async", "mlp_sync"),
    "dense": ("mlp_large_async", "mlp_large_sync"),
    "rows": ("embedding_async", "embedding_sync"),
}
VALIDATED_WORKERS = (1, 2, 4)
PAGE_BEGIN = "<!-- figures: benchmarks/simulate_scaling.py --page -->\n"
PAGE_END = "<!-- end of figures -->"
ALL_REDUCE, IDEAL = "all-reduce", "ideal"


def main() -> None:
    machine.clean_own_environment()
    os.environ.update(machine.clean_environment(threads=1))  # also for measurements in this process
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=5)
    parser.add_argument("--round-s", type=float, default=0.5, help="seconds of steps per round")
    parser.add_argument("--measure", action="store_true", help="measure and keep the constants")
    parser.add_argument("--validate", action="store_true", help="compare with real clusters")
    parser.add_argument("--pictures", type=Path, help="the folder to draw pictures in")
    parser.add_argument("--page", type=Path, help="the page whose figures are replaced")
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    parser.add_argument("--worker-steps", type=int, default=WORKER_STEPS, help="simulated")
    options = parser.parse_args()
    report = Report("simulate_scaling", PACKAGES, options)
    if options.measure:
        from scaling import measuring

        measuring.constants(options.rounds, options.round_s).save()
    constants = Constants.load()
    tables = {f"Constants ({constants.source})": _constants_table(constants)}
    if options.validate:
        tables["Steps per second on this machine, over TCP"] = _validation(constants, options)
    found = {
        (synchronous, name, network.text): simulated(
            constants.models[name], constants.channel, network, synchronous, options
        )
        for synchronous in (False, True)
        for name in SHOWN
        for network in NETWORKS
    }
    for name in SHOWN:
        tables[f"{constants.models[name].text}: speed-up over one worker"] = _speed_ups(name, found)
        tables[f"{constants.models[name].text}: parameter servers by the rule of thumb"] = _rule(
            constants.models[name], constants.channel
        )
    if options.pictures:
        from scaling import pictures

        for synchronous, mode in ((False, "asynchronous"), (True, "synchronous")):
            panels = {
                (name, network.text): found[synchronous, name, network.text]
                for name in SHOWN
                for network in NETWORKS
            }
            title = f"Simulated {mode} training of a dense and a sparse model"
            pictures.draw(options.pictures / f"scaling_{mode}", title, panels)
    if options.page:
        _replace_figures(options.page, tables)
    report.finish(tables)


def _replace_figures(page: Path, tables: dict[str, Table]) -> None:
    """Inserts tables between the marks of a page."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(PAGE_BEGIN)
    _, end, after = rest.partition(PAGE_END)
    if not end:
        raise ValueError(f"{page} has no lines {PAGE_BEGIN!r} and {PAGE_END!r}")
    figures = "".join(f"\n{caption}\n\n{table}\n" for caption, table in tables.items())
    page.write_text(f"{before}{begin}{figures}\n{end}{after}", encoding="utf-8")


Series = dict[str, list[tuple[int, float]]]


def simulated(
    model: Model, channel: Channel, network: Network, synchronous: bool, options: argparse.Namespace
) -> Series:
    """Steps per second by number of workers, for numbers of parameter servers and all-reduce."""
    lines: Series = {
        f"{num_ps} ps": [
            (
                count,
                steps_per_s(
                    model,
                    channel,
                    network,
                    count,
                    num_ps,
                    synchronous=synchronous,
                    stragglers=USUAL,
                    worker_steps=options.worker_steps,
                ),
            )
            for count in options.workers
        ]
        for num_ps in PS_COUNTS
    }
    if synchronous:
        lines[ALL_REDUCE] = [
            (count, ring_steps_per_s(model, channel, network, count, stragglers=USUAL))
            for count in options.workers
        ]
    lines[IDEAL] = [(count, count / model.compute_s) for count in options.workers]
    return lines


def parameter_servers_needed(model: Model, channel: Channel, network: Network, workers: int) -> int:
    """Returns the parameter servers that keep workers busy, by a rule of thumb; 0 if none do.

    During a worker's step, a parameter server must process a message of each worker and its share
    of their bytes and updates.
    """
    step_s = worker_step_s(model, channel, network)
    messages_s = 2 * workers * channel.message_s
    bytes_s = (model.pull_bytes + model.push_bytes) / channel.bytes_per_s
    port_s = max(model.pull_bytes, model.push_bytes) / network.bytes_per_s
    left_s = step_s - messages_s
    if left_s <= 0:
        return 0
    return max(
        1,
        math.ceil(workers * (bytes_s + model.apply_s) / left_s),
        math.ceil(workers * port_s / step_s),
    )


def worker_step_s(model: Model, channel: Channel, network: Network) -> float:
    """The step of one worker, alone with one parameter server."""
    return 1 / steps_per_s(model, channel, network, 1, 1, stragglers=NONE)


def _rule(model: Model, channel: Channel) -> Table:
    rows = []
    for workers in TABLE_WORKERS:
        counts = [parameter_servers_needed(model, channel, each, workers) for each in NETWORKS]
        cells = [str(count) if count else "messages alone are too many" for count in counts]
        rows.append([str(workers), *cells])
    return Table(["workers", *(network.text for network in NETWORKS)], rows)


def _speed_ups(name: str, found: dict[tuple[bool, str, str], Series]) -> Table:
    rows = []
    for (synchronous, model, network), series in found.items():
        if model != name:
            continue
        alone = max(dict(points)[min(dict(points))] for points in series.values())
        for line, points in series.items():
            rates = dict(points)
            if line != IDEAL:
                mode = "synchronous" if synchronous else "asynchronous"
                cells = [f"{rates[n] / alone:.3g}" if n in rates else "-" for n in TABLE_WORKERS]
                rows.append([mode, network, line, *cells])
    headings = ["mode", "network", "with", *(f"{n} workers" for n in TABLE_WORKERS)]
    return Table(headings, rows)


def _constants_table(constants: Constants) -> Table:
    rows = [
        [
            model.text,
            f"{model.compute_s * 1e3:.3g} ms",
            f"{model.apply_s * 1e3:.3g} ms",
            f"{model.pull_bytes / 1e6:.3g} MB",
            f"{model.push_bytes / 1e6:.3g} MB",
        ]
        for model in constants.models.values()
    ]
    channel = constants.channel
    message = f"{channel.message_s * 1e6:.3g} µs and 1 s per {channel.bytes_per_s / 1e9:.3g} GB"
    rows.append([f"a message, at each end: {message}", "", "", "", ""])
    return Table(["model", "gradients", "update", "pulled", "pushed"], rows)


def _validation(constants: Constants, options: argparse.Namespace) -> Table:
    from scaling import measuring

    rows = []
    for name, cases in VALIDATED.items():
        for case in cases:
            for workers in VALIDATED_WORKERS:
                real = measuring.trained_steps_per_s(workers, case, options.rounds, options.round_s)
                predicted = steps_per_s(
                    constants.models[name],
                    constants.channel,
                    LOOPBACK,
                    workers,
                    1,
                    synchronous=case.endswith("_sync"),
                    stragglers=NONE,
                    cores=os.cpu_count(),
                )
                error = f"{predicted / real - 1:+.0%}"
                rows.append([case, str(workers), f"{real:,.1f}", f"{predicted:,.1f}", error])
    headings = ["case", "workers", "measured", "simulated", "error"]
    return Table(headings, rows)


if __name__ == "__main__":
    main()
