"""Eager execution: functions compute immediately instead of adding nodes."""
