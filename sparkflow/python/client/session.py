"""See `sparkflow.session.session`."""

from sparkflow.session.session import BaseSession, InteractiveSession, Session

__all__ = ["BaseSession", "InteractiveSession", "Session"]
