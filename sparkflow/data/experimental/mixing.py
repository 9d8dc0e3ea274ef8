"""Datasets that mix several others, and endless datasets of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow.data import structure
from sparkflow.data.dataset import Dataset, seeds
from sparkflow.data.registered import of_datasets
from sparkflow.data.sources import dataset_of, range_
from sparkflow.graph.scopes import convert_to_tensor, get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.random.random import random_uniform
from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import as_dtype, int64


@of_datasets
def Counter(start: Any = 0, step: Any = 1, dtype: Any = int64) -> Dataset:
    """An endless dataset of numbers: `start`, `start + step`, ..."""
    wanted = as_dtype(dtype)
    numbers = range_(np.iinfo(np.int64).max)
    graph_start = convert_to_tensor(start, wanted)
    graph_step = convert_to_tensor(step, wanted)

    def number(index: Tensor) -> Tensor:
        cast = get_default_graph().apply("Cast", [index], {"DstT": wanted})
        made: Tensor = cast * graph_step + graph_start
        return made

    return numbers.map(number)


@of_datasets
class RandomDataset(Dataset):
    """An endless dataset of random int64 numbers in [0, 2**32).

    Args:
        seed: A seed that makes the numbers reproducible.
    """

    def __init__(self, seed: Any = None) -> None:
        element = structure.Component(int64, ())
        made = dataset_of("RandomDataset", list(seeds(seed)), element, **structure.attrs(element))
        super().__init__(made._variant_tensor, element)


def _mixed(selector: Dataset, datasets: Sequence[Dataset], stop_on_empty: bool) -> Dataset:
    first = datasets[0]
    element = first._structure
    for other in datasets[1:]:
        if structure.types(other._structure) != structure.types(element):
            raise TypeError(
                f"Two datasets to concatenate have different types {first.output_types} and "
                f"{other.output_types}"
            )
        element = structure.common(element, other._structure)
    inputs = [selector._variant_tensor, [each._variant_tensor for each in datasets]]
    return dataset_of(
        "DirectedInterleaveDataset",
        inputs,
        element,
        N=len(datasets),
        stop_on_empty_dataset=stop_on_empty,
        **structure.attrs(element),
    )


@of_datasets
def choose_from_datasets(
    datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = False
) -> Dataset:
    """Returns a dataset of elements of several others, in the order of `choice_dataset`.

    Args:
        datasets: The others.
        choice_dataset: Scalar int64 elements: the index of the next dataset to take from.
        stop_on_empty_dataset: Whether it ends when the first of the others ends.

    Raises:
        TypeError: The choices are not int64 scalars, or the elements differ in type.
    """
    choice = choice_dataset._structure
    if choice != structure.Component(int64, ()):
        raise TypeError("`choice_dataset` must be a dataset of scalar `tf.int64` tensors.")
    return _mixed(choice_dataset, list(datasets), stop_on_empty_dataset)


@of_datasets
def sample_from_datasets(
    datasets: Sequence[Dataset],
    weights: Any = None,
    seed: Any = None,
    stop_on_empty_dataset: bool = False,
) -> Dataset:
    """Returns a dataset of elements of several others, drawn at random.

    Args:
        datasets: The others.
        weights: The probability of each dataset; None for equal ones.
        seed: A seed that makes the choices reproducible.
        stop_on_empty_dataset: Whether it ends when the first of the others ends.

    Raises:
        ValueError: There are no datasets, or the number of weights differs from theirs.
        TypeError: The elements differ in type.
    """
    found = list(datasets)
    if not found:
        raise ValueError("`datasets` must be a non-empty list of datasets")
    if weights is None:
        weights = [1.0 / len(found)] * len(found)
    if isinstance(weights, Dataset):
        raise TypeError("`weights` must be a list or tensor, one number per dataset")
    shares = convert_to_tensor(weights, dtypes.float64, "weights")
    if shares._shape is not None and shares._shape != (len(found),):
        raise ValueError(
            f"`weights` must have the same length as `datasets`, {len(found)}, got shape "
            f"{shares.shape}"
        )
    graph = get_default_graph()
    limits = graph.apply("Cumsum", [shares, 0], {})

    def draw(_: Tensor) -> Tensor:
        inner = get_default_graph()
        total = inner.apply("Max", [limits, [0]], {})
        number = random_uniform([], dtype=dtypes.float64, seed=seed) * total
        below = inner.apply("LessEqual", [limits, number], {})
        counted = inner.apply("Sum", [inner.apply("Cast", [below], {"DstT": int64}), [0]], {})
        made: Tensor = counted
        return made

    selector = range_(1).repeat().map(draw)
    return _mixed(selector, found, stop_on_empty_dataset)
