"""Programs of partitions on a GPU, which run on one stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from sparkflow_runtime.compiler.program import Program
from sparkflow_runtime.device.gpu_stream import GpuStream
from sparkflow_runtime.ops.kernel import StepContext


@dataclass(frozen=True, slots=True)
class StreamProgram(Program):
    """A program that runs on one stream of a GPU."""

    stream: GpuStream | None = None

    def run(self, step: StepContext | None, args: Sequence[Any]) -> tuple[Any, ...]:
        """Runs it on the stream, see `Program.run`."""
        assert self.stream is not None
        with self.stream.running():
            return Program.run(self, step, args)


def on_stream(program: Program, stream: GpuStream) -> StreamProgram:
    """Returns the same program on a stream."""
    parts = {field.name: getattr(program, field.name) for field in fields(program) if field.init}
    return StreamProgram(**parts, stream=stream)
