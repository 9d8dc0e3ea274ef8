"""Which backend leads a training: the driver of a classic session, or a Connect one's cluster."""

from __future__ import annotations

from typing import Any

from sparkflow.spark.launch.classic import ClassicBackend
from sparkflow.spark.launch.training import Backend


def backend_for(session: Any) -> Backend:
    """The backend of a session."""
    if hasattr(session, "_jsparkSession"):
        return ClassicBackend(session)
    from sparkflow.spark.launch.connect.client import ConnectBackend

    return ConnectBackend(session)
