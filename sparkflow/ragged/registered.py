"""What stands for a function where an argument is ragged, and what methods of such tensors do."""

from typing import Final

from sparkflow.graph.registered import ByName

_MADE: Final = ByName()
of_ragged: Final = _MADE.add
"""Decorates the function for ragged tensors; it is found by the name of the other."""
registered: Final = _MADE.find
