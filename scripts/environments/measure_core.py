"""Fails if the installation is too large or its first prediction too slow.

python measure_core.py MODEL     MODEL is a folder that `smoke.py` saved
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

MOST_MB = 400
MOST_CPU_S = 0.5
"""For the import and the first prediction together, including imported modules such as numpy."""

TRIES = 5  # the minimum counts, because other processes use the machine, too

_PROGRAM = """
import sys, time
started = time.process_time()
import numpy as np
import sparkflow.export
imported = time.process_time()
model = sparkflow.export.InferenceModel.load(sys.argv[1])
model.predict(np.ones([1, 4], np.float32))
print(imported - started, time.process_time() - imported)
"""


def installed_bytes() -> int:
    """Returns the size of site-packages without pip and its dependencies."""
    total = 0
    site = Path(sysconfig.get_path("purelib"))
    for folder, folders, files in os.walk(site):
        if Path(folder) == site:
            folders[:] = [each for each in folders if not each.startswith(("pip", "setuptools"))]
        total += sum(os.lstat(os.path.join(folder, each)).st_size for each in files)
    return total


def cpu_seconds(model: str) -> tuple[float, float]:
    """Returns the times of the import and of the first prediction."""
    command = [sys.executable, "-I", "-c", _PROGRAM, model]
    found = []
    for _ in range(TRIES):
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found.append([float(each) for each in done.stdout.split()])
    return min(each[0] for each in found), min(each[1] for each in found)


def main() -> int:
    """Runs the script; returns its exit status."""
    size_mb = installed_bytes() / 1e6
    importing, predicting = cpu_seconds(sys.argv[1])
    print(
        f"installed: {size_mb:.0f} MB (at most {MOST_MB}); CPU time: import sparkflow.export "
        f"{importing:.2f} s, first prediction {predicting:.2f} s (together at most {MOST_CPU_S})"
    )
    return int(size_mb > MOST_MB or importing + predicting > MOST_CPU_S)


if __name__ == "__main__":
    sys.exit(main())
