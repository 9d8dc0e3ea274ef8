"""What Spark's UI calls the jobs that we start: who starts them and what for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

_PROPERTY: Final = "spark.job.description"


@contextlib.contextmanager
def described(session: Any, text: str) -> Iterator[None]:
    """Has the jobs of this thread carry a description, and afterwards that of before.

    Args:
        session: One of Spark Connect has no way to say it, and is left alone.
        text: The description.
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
