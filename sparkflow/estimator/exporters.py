"""Exporters: what is exported after an evaluation, and which exports are kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from absl import logging

from sparkflow._api import export
from sparkflow.estimator.evaluation import read_results
from sparkflow.estimator.functions import arguments_of
from sparkflow.graph.collections import GraphKeys
from sparkflow.io import gfile


@export("estimator.Exporter")
class Exporter:
    """Exports an estimator. Override `name` and `export`."""

    @property
    def name(self) -> str:
        """The directory below `export` that it writes to."""
        raise NotImplementedError(type(self).__name__)

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any] | None,
        is_the_final_export: bool,
    ) -> Any:
        """Exports, or returns None.

        Args:
            estimator: The estimator.
            export_path: The directory of this exporter.
            checkpoint_path: What was evaluated.
            eval_result: What the evaluation gave.
            is_the_final_export: Whether training has ended.
        """
        raise NotImplementedError(type(self).__name__)


class _SavedModelExporter(Exporter):
    """Writes a SavedModel; what the exporters share."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
    ) -> None:
        if not name:
            raise ValueError("An exporter must have a name.")
        self._name = name
        self._receiver_fn = serving_input_receiver_fn
        self._assets_extra = assets_extra
        self._as_text = as_text

    @property
    def name(self) -> str:
        """As given."""
        return self._name

    def _write(self, estimator: Any, export_path: str, checkpoint_path: str) -> Any:
        gfile.makedirs(export_path)
        return estimator.export_saved_model(
            export_path,
            self._receiver_fn,
            assets_extra=self._assets_extra,
            as_text=self._as_text,
            checkpoint_path=checkpoint_path,
        )


@export("estimator.FinalExporter")
class FinalExporter(_SavedModelExporter):
    """Exports once, at the end.

    Args:
        name: The directory below `export`.
        serving_input_receiver_fn: As for `Estimator.export_saved_model`.
        assets_extra: As there.
        as_text: As there.
    """

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any] | None,
        is_the_final_export: bool,
    ) -> Any:
        """Exports when training has ended."""
        if not is_the_final_export:
            return None
        logging.info("Performing the final export in the end of training.")
        return self._write(estimator, export_path, checkpoint_path)


@export("estimator.LatestExporter")
class LatestExporter(_SavedModelExporter):
    """Exports after each evaluation, and keeps the latest.

    Args:
        name: The directory below `export`.
        serving_input_receiver_fn: As for `Estimator.export_saved_model`.
        assets_extra: As there.
        as_text: As there.
        exports_to_keep: How many are kept; all when None.

    Raises:
        ValueError: None is kept.
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        self._keep = _checked_keep(exports_to_keep)

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any] | None,
        is_the_final_export: bool,
    ) -> Any:
        """Exports, and removes the oldest."""
        written = self._write(estimator, export_path, checkpoint_path)
        _remove_oldest(export_path, self._keep)
        return written


@export("estimator.BestExporter")
class BestExporter(_SavedModelExporter):
    """Exports after evaluations that are better than all before.

    Args:
        name: The directory below `export`.
        serving_input_receiver_fn: As for `Estimator.export_saved_model`.
        event_file_pattern: Events of evaluations before this process, below the model's directory,
            such as `eval/*.tfevents.*`; None for none.
        compare_fn: Called with `best_eval_result` and `current_eval_result`; returns whether the
            latter is better. A smaller loss is when None.
        assets_extra: As for `Estimator.export_saved_model`.
        as_text: As there.
        exports_to_keep: How many are kept; all when None.

    Raises:
        ValueError: None is kept, or `compare_fn` does not take two results by name.
    """

    def __init__(
        self,
        name: str = "best_exporter",
        serving_input_receiver_fn: Callable[[], Any] | None = None,
        event_file_pattern: str | None = None,
        compare_fn: Callable[..., bool] | None = None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        if serving_input_receiver_fn is None:
            raise ValueError("A serving_input_receiver_fn must be given.")
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        self._better = _smaller_loss if compare_fn is None else _checked_comparison(compare_fn)
        self._keep = _checked_keep(exports_to_keep)
        self._pattern = event_file_pattern
        self._best: Mapping[str, Any] | None = None

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any] | None,
        is_the_final_export: bool,
    ) -> Any:
        """Exports if the result is the best."""
        if self._best is None and self._pattern is not None:
            self._best = self._before(os.path.join(estimator.model_dir, self._pattern), eval_result)
        if self._best is not None and not self._better(
            best_eval_result=self._best, current_eval_result=eval_result
        ):
            return None
        logging.info("Performing best model export.")
        self._best = eval_result
        written = self._write(estimator, export_path, checkpoint_path)
        _remove_oldest(export_path, self._keep)
        return written

    def _before(
        self, pattern: str, eval_result: Mapping[str, Any] | None
    ) -> Mapping[str, Any] | None:
        """The best result that event files tell of, apart from the event of this result itself."""
        best: Mapping[str, Any] | None = None
        for step, found in read_results(pattern):
            if _tells_of(step, found, eval_result or {}):
                continue
            if best is None or self._better(best_eval_result=best, current_eval_result=found):
                best = found
        return best


def _tells_of(step: int, found: Mapping[str, float], result: Mapping[str, Any]) -> bool:
    """Whether an event of this step has the numbers of this result, which it has as float32."""
    if result.get(GraphKeys.GLOBAL_STEP) != step:
        return False
    return all(
        name in result and np.array_equal(np.float32(result[name]), np.float32(number), True)
        for name, number in found.items()
    )


def _checked_comparison(compare_fn: Callable[..., bool]) -> Callable[..., bool]:
    names = set(arguments_of(compare_fn))
    wanted = {"best_eval_result", "current_eval_result"}
    for name in sorted(wanted - names):
        raise ValueError(
            f"compare_fn ({compare_fn}) must include {name} argument. It takes {sorted(names)}"
        )
    if names - wanted:
        raise ValueError(
            f"compare_fn ({compare_fn}) has following not expected args: {sorted(names - wanted)}"
        )
    return compare_fn


def _smaller_loss(
    best_eval_result: Mapping[str, Any] | None, current_eval_result: Mapping[str, Any] | None
) -> bool:
    return _loss(best_eval_result, "best") > _loss(current_eval_result, "current")


def _loss(result: Mapping[str, Any] | None, name: str) -> float:
    if not result or "loss" not in result:
        raise ValueError(f"{name}_eval_result cannot be empty or no loss is found in it.")
    return float(result["loss"])


def _checked_keep(number: int | None) -> int | None:
    if number is not None and number <= 0:
        raise ValueError("`exports_to_keep`, if provided, must be a positive number.")
    return number


def _remove_oldest(directory: str, keep: int | None) -> None:
    if keep is None:
        return
    exports = sorted(
        (name.rstrip("/") for name in gfile.listdir(directory) if name.rstrip("/").isdecimal()),
        key=int,
    )
    for name in exports[:-keep]:
        gfile.rmtree(os.path.join(directory, name))
