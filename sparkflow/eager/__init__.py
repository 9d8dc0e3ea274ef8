"""Eager execution: functions compute at once instead of adding nodes."""
