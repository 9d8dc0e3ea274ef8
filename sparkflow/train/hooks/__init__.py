"""Hooks, called around the steps of monitored sessions."""
