"""`from sparkflow.python.client import timeline, device_lib`."""

from sparkflow.python.client import device_lib, session, timeline

__all__ = ["device_lib", "session", "timeline"]
