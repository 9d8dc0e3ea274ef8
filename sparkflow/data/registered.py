"""The registry in which methods of datasets and iterators look up functions by name."""

from typing import Final

from sparkflow.graph.registered import ByName

_MADE: Final = ByName()
of_datasets: Final = _MADE.add
"""Registers the decorated function or class."""
registered: Final = _MADE.find
