"""Which kind of session it is, and what a Connect session can tell of its cluster."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame


def is_connect(session: Any) -> bool:
    """Whether the session is a client of Spark Connect, without a JVM of its own."""
    return not hasattr(session, "_jsparkSession")


def session_of(dataset: DataFrame) -> Any:
    """The session of a DataFrame."""
    return dataset.sparkSession


def setting(session: Any, key: str, default: str) -> str:
    """A setting of the session or its cluster; the default where Connect does not say."""
    value = session.conf.get(key, default)
    return str(value)
