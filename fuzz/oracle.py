"""What must hold of a parser of outside bytes, whatever the bytes are.

It gives a value, or one of the errors that its docstring names; it takes at most a second of
processor time and 256 MiB, an image as much as its pixels. Everything else is a finding.
"""

from __future__ import annotations

import importlib
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sparkflow_runtime.errors import OpError

MOST_S: Final = 1.0
"""Processor time of one input; a fuzzer's instrumentation makes Python a few times slower."""
MOST_BYTES: Final = 256 << 20
CORPUS: Final = Path(__file__).parent / "corpus"
FAMILIES: Final = {
    "graphs": (
        *("sparkflow.graph", "sparkflow.saved_model", "sparkflow.train.checkpoints"),
        *("sparkflow_runtime.ir", "sparkflow_runtime.tensor_proto", "sparkflow_runtime.shapes"),
    ),
    "tensors": ("sparkflow_runtime.checkpoint", "sparkflow.export"),
    "records": ("sparkflow_runtime.events", "sparkflow_runtime.files", "sparkflow.spark.data"),
    "wire": (
        *("sparkflow_runtime.transport", "sparkflow_runtime.device", "sparkflow_runtime.ir"),
        "sparkflow.spark.data.feed",
    ),
    "ops": ("sparkflow_runtime.ops", "wave", "PIL"),
    "tables": ("sparkflow.spark.data", "sparkflow.spark.task_resources", "pyiceberg"),
}
"""The modules of targets, each with the packages whose branches guide a fuzzer."""


class Finding(AssertionError):
    """Something that no parser may do, besides errors of the wrong kind."""


@dataclass(frozen=True, slots=True)
class Target:
    """One parser.

    Attributes:
        name: Of its corpus, too.
        run: Parses the bytes.
        seeds: Inputs to begin with: good ones.
        errors: What it may raise beside `OpError`, as its docstring says.
        most_bytes: How much memory it may take, whatever the bytes claim.
    """

    name: str
    run: Callable[[bytes], Any]
    seeds: Callable[[], Sequence[bytes]]
    errors: tuple[type[Exception], ...] = ()
    most_bytes: int = MOST_BYTES


def all_targets() -> Iterator[tuple[str, Target]]:
    """Every target with its family."""
    for family in FAMILIES:
        for target in importlib.import_module(f"targets.{family}").TARGETS:
            yield family, target


def check(target: Target, data: bytes, slower: float = 1.0) -> None:
    """Passes when the parser keeps its word for these bytes.

    Args:
        target: The parser.
        data: The bytes.
        slower: How many times slower Python is than without instrumentation.

    Raises:
        Finding: It takes too long, or too much memory.
        Exception: What it may not raise.
    """
    before = _peak_bytes()
    started = time.thread_time()
    try:
        target.run(data)
    except (OpError, *target.errors):
        pass
    took = time.thread_time() - started
    grown = _peak_bytes() - before
    if took > MOST_S * slower:
        raise Finding(f"{len(data)} bytes took {took:.1f} s")
    if grown > target.most_bytes:
        raise Finding(f"{len(data)} bytes took {grown >> 20} MiB")


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
