"""`warm_start`: all variables that a checkpoint knows start from it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from absl import logging

from sparkflow._api import export
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import get_collection
from sparkflow.train.checkpoints.initialising import init_from_checkpoint


@export("train.VocabInfo", "estimator.VocabInfo")
class VocabInfo(NamedTuple):
    """Which vocabulary the rows of a variable were trained with.

    Attributes:
        new_vocab: The vocabulary file used now.
        new_vocab_size: How many entries of it are used.
        num_oov_buckets: How many rows are for other words.
        old_vocab: The vocabulary file of the checkpoint.
        old_vocab_size: How many entries of it were used; -1 for all.
        backup_initializer: What new rows start from; zeros when None.
        axis: Which axis the vocabulary runs along.
    """

    new_vocab: str
    new_vocab_size: int
    num_oov_buckets: int
    old_vocab: str
    old_vocab_size: int = -1
    backup_initializer: Any = None
    axis: int = 0


@export("train.warm_start")
def warm_start(
    ckpt_to_initialize_from: str | os.PathLike[str],
    vars_to_warm_start: Any = ".*",
    var_name_to_vocab_info: Mapping[str, VocabInfo] | None = None,
    var_name_to_prev_var_name: Mapping[str, str] | None = None,
) -> None:
    """Initializes variables from those of the same name in a checkpoint.

    Args:
        ckpt_to_initialize_from: The prefix of a checkpoint, or a directory with one.
        vars_to_warm_start: A regular expression for names of trainable variables; a list of such
            expressions for names of all variables; a list of variables; None for no variables.
        var_name_to_vocab_info: Not taken: the rows of another vocabulary are not rearranged.
        var_name_to_prev_var_name: The names in the checkpoint of variables named otherwise.

    Raises:
        ValueError: A name is not in the checkpoint, vocabularies are given, or a name maps nothing.
        TypeError: `vars_to_warm_start` is something else.
    """
    if var_name_to_vocab_info:
        raise ValueError(
            "warm_start takes no var_name_to_vocab_info: rows of a vocabulary that changed are not "
            f"rearranged, asked for {sorted(var_name_to_vocab_info)}"
        )
    previous = dict(var_name_to_prev_var_name or {})
    grouped: dict[str, list[Any]] = {}
    for variable in _chosen(vars_to_warm_start):
        part = getattr(variable, "_save_slice_info", None)
        name = variable.op.name if part is None else str(part.full_name)
        grouped.setdefault(name, []).append(variable)
    unknown = sorted(previous.keys() - grouped.keys())
    if unknown:
        raise ValueError(
            "You provided the following variables in var_name_to_prev_var_name that were not used: "
            f"{unknown}"
        )
    mapping: dict[str, Any] = {previous.get(name, name): each for name, each in grouped.items()}
    logging.info("Warm-starting %d variables from %s", len(mapping), ckpt_to_initialize_from)
    if mapping:
        init_from_checkpoint(ckpt_to_initialize_from, mapping)


def _chosen(wanted: Any) -> Sequence[Any]:
    if wanted is None:
        return []
    if isinstance(wanted, str):
        return get_collection(GraphKeys.TRAINABLE_VARIABLES, scope=wanted)
    if not isinstance(wanted, list | tuple):
        raise TypeError(
            "`vars_to_warm_start must be a `list` or `tuple` when used for a list of variables, "
            f"got {type(wanted).__name__}"
        )
    found: list[Any] = []
    for each in wanted:
        if isinstance(each, str):
            found += get_collection(GraphKeys.GLOBAL_VARIABLES, scope=each)
        else:
            found += getattr(each, "_variable_list", [each])
    return list(dict.fromkeys(found))
