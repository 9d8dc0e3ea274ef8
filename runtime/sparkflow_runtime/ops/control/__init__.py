"""Branches, loops, function calls, and ops that inspect values during a step."""
