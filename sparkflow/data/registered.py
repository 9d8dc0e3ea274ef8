"""What methods of datasets and iterators find by name: functions that are written with them."""

from typing import Final

from sparkflow.graph.registered import ByName

_MADE: Final = ByName()
of_datasets: Final = _MADE.add
"""Decorates such a function, or a class."""
registered: Final = _MADE.find
