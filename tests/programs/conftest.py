"""Keeps pytest, which looks for doctests, from importing the programs: that would run them."""

from pathlib import Path

_KEPT = ("conftest.py", "test_programs.py")
collect_ignore = [p.name for p in Path(__file__).parent.glob("*.py") if p.name not in _KEPT]
