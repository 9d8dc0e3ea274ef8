"""A competitor of `parameter_servers.py`: `ps_limit_competitor.py tcp|unix|memory`, bare bytes.

Moves as many bytes as a case over a bare socket between two processes, or copies them once within
one process: a lower bound for each kind of transport.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial

import numpy as np
import ps_programs
import wire
from competitor import Case, serve

FLOAT_BYTES = 4


def sizes(case: str) -> tuple[int, int] | None:
    """Returns the bytes that a case pushes and pulls; None if it does more than that."""
    large = ps_programs.LARGE_FLOATS * FLOAT_BYTES
    if ps_programs.uses_all_workers(case) or case == "pull_sum":
        return None
    known = {"pull": (0, large), "push": (large, FLOAT_BYTES)}
    known |= dict.fromkeys(("read", "read_here"), (0, FLOAT_BYTES))
    if case in known:
        return known[case]
    count, floats = ps_programs.exchange_shape(case)
    each_way = count * floats * FLOAT_BYTES
    return each_way, each_way


def main() -> None:
    (kind,) = sys.argv[1:]
    with ExitStack() as stack:
        exchange = _copying() if kind == "memory" else stack.enter_context(wire.connected(kind))

        def make(case: str) -> Case | None:
            found = sizes(case)
            return None if found is None else Case(partial(exchange, *found), [])

        serve(make)


def _copying() -> wire.Exchange:
    source = np.ones(ps_programs.LARGE_FLOATS * FLOAT_BYTES, np.uint8)
    target = np.empty_like(source)

    def exchange(up: int, down: int) -> None:
        for size in (up, down):
            np.copyto(target[:size], source[:size])

    return exchange


if __name__ == "__main__":
    main()
