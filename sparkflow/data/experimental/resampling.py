"""`Dataset.rejection_resample`: drops elements at random for the desired class distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sparkflow.data.experimental.transformations import Transformation, scan
from sparkflow.data.registered import of_datasets
from sparkflow.graph.scopes import apply_op, convert_to_tensor, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.random.random import random_uniform
from sparkflow_runtime.dtypes import float32

if TYPE_CHECKING:
    from sparkflow.data.dataset import Dataset


@of_datasets
def rejection_resample(
    class_func: Callable[..., Any], target_dist: Any, initial_dist: Any = None, seed: Any = None
) -> Transformation:
    """Drops elements of classes that are too frequent, see `Dataset.rejection_resample`."""
    return lambda dataset: _resampled(dataset, class_func, target_dist, initial_dist, seed)


def _resampled(
    dataset: Dataset, class_func: Callable[..., Any], target_dist: Any, initial_dist: Any, seed: Any
) -> Dataset:
    target = convert_to_tensor(target_dist, float32)
    size = target.shape[0].value
    known = None if initial_dist is None else convert_to_tensor(initial_dist, float32)

    def counted(state: Tensor, *element: Any) -> tuple[Tensor, Any]:
        place = convert_to_tensor(class_func(*element))
        state = state + apply_op("OneHot", place, size, 1.0, 0.0)
        found = state / apply_op("Sum", state, [0]) if known is None else known
        kept = apply_op("GatherV2", _acceptance(found, target), place, 0)
        return state, (place, kept, element if len(element) > 1 else element[0])

    start = convert_to_tensor([0.0] * size)
    pairs = scan(start, counted)(dataset)
    drawn = pairs.filter(lambda _, kept, __: random_uniform([], seed=seed) < kept)
    return drawn.map(lambda place, _, element: (place, element))


def _acceptance(initial: Tensor, target: Tensor) -> Tensor:
    """Returns the probability of keeping an element of each class: its ratio over the largest."""
    ratio = apply_op("DivNoNan", target, initial)
    return output_of("DivNoNan", ratio, apply_op("Max", ratio, [0]))
