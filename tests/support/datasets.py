"""Datasets at run time: small sources, and what is in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow_runtime.resources.datasets import dataset_sources
from sparkflow_runtime.resources.datasets.dataset import Dataset, Element
from support.step import FakeStep


def elements(dataset: Dataset, count: int = 1000) -> list[tuple[Any, ...]]:
    """Returns up to this many elements of a dataset, as tuples of lists and numbers."""
    iterator = dataset.iterate()
    found = iterator.collect(FakeStep(), count)
    iterator.close()
    return [tuple(np.asarray(part).tolist() for part in element) for element in found]


def values(dataset: Dataset, count: int = 1000) -> list[Any]:
    """Returns the first components of elements."""
    return [element[0] for element in elements(dataset, count)]


def numbers(count: int) -> Dataset:
    """Returns the dataset of the numbers from 0."""
    return dataset_sources.of_range(0, count, 1)


def add_one(step: Any, element: Element) -> Element:
    """Adds one; a function for datasets of numbers."""
    return (element[0] + 1,)
