"""`tf.test.main`: runs the tests of a program, or its benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from absl.testing import absltest

from sparkflow.test.benchmark import run_benchmarks


def main(argv: Sequence[str] | None = None) -> None:
    """Runs all tests of `__main__` and exits; with `--benchmarks=regexp`, its benchmarks.

    Args:
        argv: The command line; `sys.argv` when None.
    """
    arguments = list(sys.argv if argv is None else argv)
    patterns = [a.partition("=")[2] for a in arguments if a.startswith("--benchmarks=")]
    if patterns:
        sys.exit(0 if run_benchmarks(patterns[-1]) else 1)
    absltest.main(argv=arguments)
