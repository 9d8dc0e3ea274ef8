"""How an evaluation ends, and where its results are written to and read from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from absl import logging
from google.protobuf.message import DecodeError

from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import get_collection
from sparkflow.io import gfile
from sparkflow.ops.conversions import make_tensor_proto
from sparkflow.summary.writer import FileWriterCache
from sparkflow.train.session_run_hook import (
    LoopLimits,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from sparkflow.train.sessions.scaffold import Scaffold
from sparkflow_runtime.dtypes import string
from sparkflow_runtime.errors import DataLossError
from sparkflow_runtime.events.event_file import read_events
from sparkflow_runtime.protos.summary_pb2 import Summary

_CHECKPOINT_PATH: Final = "checkpoint_path"


class StopAfterSteps(SessionRunHook):
    """Requests a stop after a number of runs.

    Args:
        steps: How many.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._done = 0

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Counts."""
        self._done += 1
        if self._done >= self._steps:
            run_context.request_stop()

    def loop_limits(self) -> LoopLimits:
        """The runs that are left."""
        return LoopLimits(self._steps - self._done)

    def after_loop(
        self, run_context: SessionRunContext, run_values: SessionRunValues, num_steps: int
    ) -> None:
        """Counts the runs before the last."""
        self._done += num_steps - 1
        self.after_run(run_context, run_values)


def with_values(scaffold: Scaffold, values: Mapping[str, Any]) -> Scaffold:
    """Returns a scaffold that gives variables of the default graph values after initialising them.

    Args:
        scaffold: Everything else.
        values: By the names of variables; others keep their initial values.
    """
    first = scaffold.init_fn

    def load(_: Scaffold, session: Any) -> None:
        if first is not None:
            first(session)
        for variable in get_collection(GraphKeys.GLOBAL_VARIABLES):
            if variable.op.name in values:
                variable.load(values[variable.op.name], session)

    return Scaffold(init_fn=load, copy_from_scaffold=scaffold)


def write_results(directory: str, results: Mapping[str, Any], checkpoint_path: Any) -> None:
    """Writes numbers, arrays, and summaries that are serialised, as one event.

    The summaries of a metric are tagged by its name and their number: `images/0`. Other values are
    left out with a warning. A second event tells the checkpoint.

    Args:
        directory: Where event files are.
        results: Values by name, `global_step` among them.
        checkpoint_path: What was evaluated; None for a model without a checkpoint.
    """
    text = ", ".join(f"{key} = {value}" for key, value in sorted(results.items()))
    step = int(results[GraphKeys.GLOBAL_STEP])
    logging.info("Saving dict for global step %d: %s (%s)", step, text, checkpoint_path)
    summary = Summary()
    for key in sorted(results):
        if key != GraphKeys.GLOBAL_STEP and results[key] is not None:
            _add_result(summary, key, results[key])
    writer = FileWriterCache.get(directory)
    writer.add_summary(summary, step)
    if checkpoint_path:
        path = Summary()
        path.value.add(
            tag=_CHECKPOINT_PATH, tensor=make_tensor_proto(os.fspath(checkpoint_path), dtype=string)
        )
        writer.add_summary(path, step)
    writer.flush()


def _add_result(summary: Summary, key: str, value: Any) -> None:
    if isinstance(value, bytes):
        try:
            parts = Summary.FromString(value).value
        except DecodeError:
            logging.warning("Skipping summary for %s, cannot parse string to Summary.", key)
            return
        for index, each in enumerate(parts):
            each.tag = f"{key}/{index}"
            summary.value.append(each)
    elif np.ndim(value) == 0 and np.issubdtype(np.asarray(value).dtype, np.number):
        summary.value.add(tag=key, simple_value=float(value))
    elif isinstance(value, np.ndarray):
        summary.value.add(tag=key, node_name=key, tensor=make_tensor_proto(value))
    else:
        logging.warning(
            "Skipping summary for %s, must be a number, an array or a serialized Summary.", key
        )


def read_results(pattern: str) -> Iterator[tuple[int, dict[str, float]]]:
    """Yields the step and the numbers, by name, of each evaluation that was written to files.

    Args:
        pattern: The paths of event files. A file that is being written is read as far as it is
            whole.
    """
    for path in sorted(gfile.glob(pattern)):
        try:
            for event in read_events(path):
                found = {
                    value.tag: value.simple_value
                    for value in event.summary.value
                    if value.HasField("simple_value")
                }
                if found:
                    yield event.step, found
        except DataLossError as error:
            logging.warning("The rest of %s is left out: %s", path, error)
