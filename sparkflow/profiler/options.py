"""Options of profiles: `tf.profiler.ProfileOptionBuilder`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_EVERYTHING = [".*"]
_TRAINABLE = ["_trainable_variables"]
_DEFAULTS: dict[str, Any] = {
    "max_depth": 10000,
    "min_bytes": 0,
    "min_micros": 0,
    "min_accelerator_micros": 0,
    "min_cpu_micros": 0,
    "min_params": 0,
    "min_float_ops": 0,
    "min_occurrence": 0,
    "order_by": "name",
    "account_type_regexes": _EVERYTHING,
    "start_name_regexes": _EVERYTHING,
    "trim_name_regexes": [],
    "show_name_regexes": _EVERYTHING,
    "hide_name_regexes": [],
    "account_displayed_op_only": False,
    "select": ["micros", "bytes"],
    "step": -1,
    "output": "stdout",
}


class ProfileOptionBuilder:
    """Builds the options of a profile, step by step: each `with_` method returns the builder.

    Args:
        options: What to start from; everything when None.
    """

    def __init__(self, options: dict[str, Any] | None = None) -> None:
        self._options = {**_DEFAULTS, **(options or {})}

    @staticmethod
    def trainable_variables_parameter() -> dict[str, Any]:
        """How many parameters the trainable variables have, by name scope."""
        return {
            **_DEFAULTS,
            "account_type_regexes": _TRAINABLE,
            "select": ["params"],
            "order_by": "name",
        }

    @staticmethod
    def float_operation() -> dict[str, Any]:
        """How many floating-point operations nodes need, where their static shapes tell."""
        return {
            **_DEFAULTS,
            "select": ["float_ops"],
            "order_by": "float_ops",
            "min_float_ops": 1,
        }

    @staticmethod
    def time_and_memory(
        min_micros: int = 1,
        min_bytes: int = 1,
        min_accelerator_micros: int = 0,
        min_cpu_micros: int = 0,
        min_peak_bytes: int = 0,
        min_residual_bytes: int = 0,
        min_output_bytes: int = 0,
    ) -> dict[str, Any]:
        """How long nodes took and how much memory their outputs need; needs a recorded run.

        Args:
            min_micros: Only what took so many microseconds.
            min_bytes: Only what needs so many bytes.
            min_accelerator_micros: Only what took so long on a GPU.
            min_cpu_micros: Only what took so long on a CPU.
            min_peak_bytes: As `min_bytes`.
            min_residual_bytes: As `min_bytes`.
            min_output_bytes: As `min_bytes`.
        """
        return {
            **_DEFAULTS,
            "min_micros": min_micros,
            "min_bytes": max(min_bytes, min_peak_bytes, min_residual_bytes, min_output_bytes),
            "min_accelerator_micros": min_accelerator_micros,
            "min_cpu_micros": min_cpu_micros,
            "select": ["micros", "bytes"],
            "order_by": "micros",
        }

    def build(self) -> dict[str, Any]:
        """The options."""
        return dict(self._options)

    def with_max_depth(self, max_depth: int) -> ProfileOptionBuilder:
        """Shows name scopes down to a depth."""
        return self._with(max_depth=max_depth)

    def with_min_memory(
        self,
        min_bytes: int = 0,
        min_peak_bytes: int = 0,
        min_residual_bytes: int = 0,
        min_output_bytes: int = 0,
    ) -> ProfileOptionBuilder:
        """Shows only entries that need at least this many bytes; the largest argument counts."""
        most = max(min_bytes, min_peak_bytes, min_residual_bytes, min_output_bytes)
        return self._with(min_bytes=most)

    def with_min_execution_time(
        self, min_micros: int = 0, min_accelerator_micros: int = 0, min_cpu_micros: int = 0
    ) -> ProfileOptionBuilder:
        """Shows only entries that took at least these microseconds: in total, on GPUs, on CPUs."""
        return self._with(
            min_micros=min_micros,
            min_accelerator_micros=min_accelerator_micros,
            min_cpu_micros=min_cpu_micros,
        )

    def with_min_parameters(self, min_params: int) -> ProfileOptionBuilder:
        """Shows only entries with at least this many parameters."""
        return self._with(min_params=min_params)

    def with_min_occurrence(self, min_occurrence: int) -> ProfileOptionBuilder:
        """Shows only op types with at least this many nodes."""
        return self._with(min_occurrence=min_occurrence)

    def with_min_float_operations(self, min_float_ops: int) -> ProfileOptionBuilder:
        """Shows only entries that need at least this many floating-point operations."""
        return self._with(min_float_ops=min_float_ops)

    def with_accounted_types(self, account_type_regexes: Sequence[str]) -> ProfileOptionBuilder:
        """Counts only nodes of these op types, devices, or `_trainable_variables`."""
        return self._with(account_type_regexes=list(account_type_regexes))

    def with_node_names(
        self,
        start_name_regexes: Sequence[str] | None = None,
        show_name_regexes: Sequence[str] | None = None,
        hide_name_regexes: Sequence[str] | None = None,
        trim_name_regexes: Sequence[str] | None = None,
    ) -> ProfileOptionBuilder:
        """Chooses by name.

        Args:
            start_name_regexes: Shows what these match and what is below.
            show_name_regexes: Shows what these match.
            hide_name_regexes: Leaves out what these match.
            trim_name_regexes: Leaves out what these match and what is below.
        """
        given = {
            "start_name_regexes": start_name_regexes,
            "show_name_regexes": show_name_regexes,
            "hide_name_regexes": hide_name_regexes,
            "trim_name_regexes": trim_name_regexes,
        }
        return self._with(**{k: list(v) for k, v in given.items() if v is not None})

    def account_displayed_op_only(self, is_true: bool) -> ProfileOptionBuilder:
        """Whether totals count only what is shown."""
        return self._with(account_displayed_op_only=is_true)

    def with_empty_output(self) -> ProfileOptionBuilder:
        """Prints nothing."""
        return self._with(output="none")

    def with_stdout_output(self) -> ProfileOptionBuilder:
        """Prints to stdout."""
        return self._with(output="stdout")

    def with_file_output(self, outfile: str) -> ProfileOptionBuilder:
        """Writes to a file."""
        return self._with(output=f"file:outfile={outfile}")

    def with_timeline_output(self, timeline_file: str) -> ProfileOptionBuilder:
        """Writes the recorded run to a file for chrome://tracing, with the step's number added."""
        return self._with(output=f"timeline:outfile={timeline_file}")

    def order_by(self, attribute: str) -> ProfileOptionBuilder:
        """Sorts by `name`, `micros`, `accelerator_micros`, `cpu_micros`, `bytes`, `params`, ..."""
        return self._with(order_by=attribute)

    def select(self, attributes: Sequence[str]) -> ProfileOptionBuilder:
        """Shows these columns: micros, bytes, params, float_ops, occurrence, device, op_types."""
        return self._with(select=list(attributes))

    def with_step(self, step: int) -> ProfileOptionBuilder:
        """Shows one recorded step; -1 for the mean of all."""
        return self._with(step=step)

    def _with(self, **changes: Any) -> ProfileOptionBuilder:
        self._options.update(changes)
        return self
