"""Run by test_network.py as a separate program, because a process has one SparkContext.

    python network_program.py FOLDER MODES TLS BREAK_S

A standalone cluster of two machines, one of them in a network namespace. While a fit trains, the
cable between the two is pulled for BREAK_S seconds. Prints one JSON object for each of the modes
(`sync,async`) and each TLS setting (`plain,tls`).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from support.fault_session import fault_session
from support.network import Cable, cable
from support.outages import Outage, fit_through, numbered_rows
from support.processes import left_after, training_processes
from support.standalone import machine, standalone

GONE_S = 60.0


class Break(Outage):
    """Pulls the cable.

    Args:
        wire: The cable.
        folder: The program's folder.
        seconds: See `Outage`.
        stops: See `Outage`.
    """

    def __init__(self, wire: Cable, folder: Path, seconds: float, stops: bool) -> None:
        super().__init__(seconds, stops)
        self._wire, self._folder = wire, folder
        self.far: list[int] = []

    def begin(self) -> None:
        there = set(self._wire.processes())
        self.far = [pid for pid in training_processes(self._folder) if pid in there]
        self._wire.pull()

    def end(self) -> None:
        self._wire.plug()

    def far_ones(self) -> list[int]:
        """Returns which of the disconnected processes still exist."""
        return [pid for pid in self.far if Path(f"/proc/{pid}").exists()]


def main() -> None:
    folder, seconds = Path(sys.argv[1]), float(sys.argv[4])
    with (
        cable() as wire,
        standalone(folder, 1, 3, host=wire.near) as master,
        machine(folder, 1, master, 1, host=wire.far, inside=wire.inside),
    ):
        spark = fault_session(folder, master, wire.near, executor_memory="600m")
        df = numbered_rows(spark)
        for tls in sys.argv[3].split(","):
            for mode in sys.argv[2].split(","):
                seen = Break(wire, folder, seconds, stops=mode != "sync")
                directory = folder / f"checkpoints-{mode}-{tls}"
                found = fit_through(seen, df, mode, directory, tls=tls == "tls")
                found["tls"] = tls == "tls"
                found["far"] = len(seen.far)
                found["far_left"] = len(left_after(seen.far_ones, GONE_S))
                found["left"] = len(left_after(lambda: training_processes(folder), GONE_S))
                print(json.dumps(found), flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
