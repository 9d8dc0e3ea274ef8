"""Descriptions in Spark's UI for the jobs that we start: who starts them, and for what."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

_PROPERTY: Final = "spark.job.description"


@contextlib.contextmanager
def described(session: Any, text: str) -> Iterator[None]:
    """Sets the description of this thread's jobs, and restores the previous one at the end.

    Args:
        session: The session; nothing is set on Spark Connect, which does not support it.
        text: The description of the jobs.
    """
    if not hasattr(session, "_jsparkSession"):
        yield
        return
    context = session.sparkContext
    before = context.getLocalProperty(_PROPERTY)
    context.setLocalProperty(_PROPERTY, text)
    try:
        yield
    finally:
        context.setLocalProperty(_PROPERTY, before)
