"""Events in the format of chrome://tracing and ui.perfetto.dev."""

from __future__ import annotations

import json
from typing import Any


class ChromeTrace:
    """Collects events. Times are microseconds since the epoch."""

    def __init__(self) -> None:
        self._about: list[dict[str, Any]] = []
        self._events: list[dict[str, Any]] = []

    def process(self, name: str, pid: int) -> None:
        """Names a group of lanes."""
        self._about.append({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}})

    def region(
        self, name: str, start: int, duration: int, pid: int, lane: int, args: dict[str, Any]
    ) -> None:
        """Something that took time."""
        self._add("X", "Op", name, start, pid, tid=lane, dur=duration, args=args)

    def arrow(self, name: str, number: int, source: tuple[int, int, int], end: bool) -> None:
        """One end of an arrow between two regions, at (time, process, lane)."""
        time, pid, lane = source
        self._add("t" if end else "s", "DataFlow", name, time, pid, tid=lane, id=number)

    def counter(self, name: str, time: int, pid: int, values: dict[str, int]) -> None:
        """The values of a curve at a time."""
        self._add("C", "Memory", name, time, pid, tid=0, args=values)

    def life(self, name: str, number: int, time: int, pid: int, end: bool, **args: Any) -> None:
        """Begin or end of a thing's life, with what there is to say about it."""
        if args:
            self._add("O", "Tensor", name, time, pid, tid=0, id=number, args={"snapshot": args})
        else:
            self._add("D" if end else "N", "Tensor", name, time, pid, tid=0, id=number)

    def _add(self, phase: str, category: str, name: str, time: int, pid: int, **rest: Any) -> None:
        event = {"ph": phase, "cat": category, "name": name, "ts": time, "pid": pid, **rest}
        self._events.append(event)

    def to_json(self) -> str:
        """The file's text."""
        return json.dumps({"traceEvents": [*self._about, *self._events]}, indent=1)
