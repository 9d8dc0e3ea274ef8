"""Programs of the kinds that people train, beside TensorFlow, JAX and PyTorch, in one table.

    python benchmarks/programs.py --record --tensorflow-python P --torch-python P --jax-python P

They are others than those of `peers.py`, which the code was tuned with; each is written once, in
`programs_cases.py`, `programs_loops.py`, `programs_recurrences.py` or `programs_models.py`. The
table is as that of `peers.py`.
"""

from __future__ import annotations

from peers import compare_all
from programs_cases import PROGRAMS
from programs_loops import LOOPS
from programs_models import MODELS
from programs_recurrences import RECURRENCES

ALL = {**PROGRAMS, **LOOPS, **RECURRENCES, **MODELS}
CASES = {name: program.text for name, program in ALL.items()}


def main() -> None:
    compare_all("programs", __doc__, CASES, "programs_competitor.py")


if __name__ == "__main__":
    main()
