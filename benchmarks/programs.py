"""Typical training programs, compared with TensorFlow, JAX and PyTorch in one table.

    python benchmarks/programs.py --record --tensorflow-python P --torch-python P --jax-python P

They differ from those of `peers.py`, with which the code was tuned; each is written once, in
`programs_cases.py`, `programs_loops.py`, `programs_recurrences.py`, `programs_models.py` or
`programs_methods.py`. The table has the form of that of `peers.py`.
"""

from __future__ import annotations

from peers import compare_all
from programs_competitor import PROGRAMS

CASES = {name: program.text for name, program in PROGRAMS.items()}


def main() -> None:
    compare_all("programs", __doc__, CASES, "programs_competitor.py")


if __name__ == "__main__":
    main()
