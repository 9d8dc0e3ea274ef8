"""`WarmStartSettings`: the checkpoint that training starts from, and which of its variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from sparkflow._api import export
from sparkflow.train.checkpoints.warm_starting import VocabInfo, warm_start


@export("estimator.WarmStartSettings")
class WarmStartSettings(
    NamedTuple(
        "WarmStartSettings",
        [
            ("ckpt_to_initialize_from", Any),
            ("vars_to_warm_start", Any),
            ("var_name_to_vocab_info", Any),
            ("var_name_to_prev_var_name", Any),
        ],
    )
):
    """Arguments of the `warm_start` of models without a checkpoint of their own.

    Args:
        ckpt_to_initialize_from: The prefix of a checkpoint, or a directory with one.
        vars_to_warm_start: A regular expression for names of trainable variables; a list of them,
            or of variables, for all; None for none.
        var_name_to_vocab_info: Vocabularies by variable.
        var_name_to_prev_var_name: The names in the checkpoint of variables named otherwise.

    Raises:
        ValueError: There is no path.
    """

    __slots__ = ()

    def __new__(
        cls,
        ckpt_to_initialize_from: Any,
        vars_to_warm_start: Any = ".*",
        var_name_to_vocab_info: Mapping[str, VocabInfo] | None = None,
        var_name_to_prev_var_name: Mapping[str, str] | None = None,
    ) -> WarmStartSettings:
        """Checks the path; see the class."""
        if not ckpt_to_initialize_from:
            raise ValueError(
                "`ckpt_to_initialize_from` MUST be set in WarmStartSettings: the prefix of a "
                f"checkpoint, or a directory with one. Given: {ckpt_to_initialize_from!r}"
            )
        return super().__new__(
            cls,
            ckpt_to_initialize_from,
            vars_to_warm_start,
            var_name_to_vocab_info,
            var_name_to_prev_var_name,
        )

    def apply(self) -> None:
        """Initializes the variables of the default graph from the checkpoint."""
        warm_start(*self)


def warm_started_from(given: Any) -> WarmStartSettings | None:
    """Settings of a path, or the settings themselves.

    Raises:
        ValueError: It is something else, or a path with nothing in it.
    """
    if given is None:
        return None
    if isinstance(given, str | bytes | os.PathLike):
        return WarmStartSettings(ckpt_to_initialize_from=os.fspath(given))
    if isinstance(given, WarmStartSettings):
        return given
    raise ValueError(
        f"warm_start_from must be a string or a WarmStartSettings, instead got {type(given)}"
    )
