"""The tags of summaries: what TensorBoard groups and shows them by."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sparkflow import logging
from sparkflow.graph.scopes import name_scope

_ILLEGAL = re.compile(r"[^-/\w\.]")


def clean_tag(name: str | None) -> str | None:
    """`name` with `_` for what no tag can have, and without leading slashes."""
    if name is None:
        return None
    clean = _ILLEGAL.sub("_", name).lstrip("/")
    if clean != name:
        logging.info("Summary name %s is illegal; using %s instead.", name, clean)
    return clean


@contextmanager
def summary_scope(
    name: str,
    family: str | None = None,
    default_name: str | None = None,
    values: Sequence[Any] = (),
) -> Iterator[tuple[str, str]]:
    """Opens the name scope of one summary.

    Args:
        name: What it is called.
        family: Put before the name, and once more before the tag, so that TensorBoard shows
            all of a family together whatever name scope they were made in.
        default_name: The name when `name` is None.
        values: Tensors whose graph is used.

    Yields:
        The tag, and the name for the node.
    """
    clean, group = clean_tag(name), clean_tag(family)
    base = clean if group is None else f"{group}/{clean}"
    with name_scope(base, default_name, values) as scope:
        path = scope.rstrip("/")
        yield (path if group is None else f"{group}/{path}"), scope
