"""The kinds of queues: first in first out, shuffled, padded, by priority."""

from __future__ import annotations

import hashlib
from typing import Any

from sparkflow._api import export
from sparkflow.ops.random.random import op_seeds
from sparkflow.queues.components import name_list, shape_attr, shape_list, type_list
from sparkflow.queues.queue_base import QueueBase, new_queue
from sparkflow_runtime.dtypes import int64


@export("FIFOQueue", "queue.FIFOQueue")
class FIFOQueue(QueueBase):
    """A queue that returns its elements in first-in, first-out order.

    Args:
        capacity: The most elements it holds.
        dtypes: The dtype of each component of an element, or the one dtype.
        shapes: Their complete shapes; None where elements may differ in shape, which
            `dequeue_many` does not allow.
        names: Names of the components; elements are dictionaries then.
        shared_name: The name under which sessions of the task share it; its session's when None.
        name: Name of the operation.
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "fifo_queue",
    ) -> None:
        dtypes = type_list(dtypes)
        shapes = shape_list(shapes)
        names = name_list(names, dtypes)
        handle = new_queue(
            "FIFOQueueV2",
            name,
            component_types=dtypes,
            shapes=shape_attr(shapes),
            capacity=capacity,
            shared_name=shared_name or "",
        )
        super().__init__(dtypes, shapes, names, handle)


@export("RandomShuffleQueue", "queue.RandomShuffleQueue", "io.RandomShuffleQueue")
class RandomShuffleQueue(QueueBase):
    """A queue that returns its elements in random order.

    Args:
        capacity: The most elements it holds.
        min_after_dequeue: How many stay behind while it is open, to be mixed with what comes.
        dtypes: As for `FIFOQueue`; the following ones, too.
        shapes: As there.
        names: As there.
        seed: The seed of the op; with neither it nor a graph seed, every run differs.
        shared_name: As there.
        name: As there.
    """

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
    ) -> None:
        dtypes = type_list(dtypes)
        shapes = shape_list(shapes)
        names = name_list(names, dtypes)
        first, second = op_seeds(seed)
        if seed is None and shared_name is not None and (first or second):
            # Graphs that share the queue agree on the graph's seed and the name, not on op numbers.
            text = f"{first}{shared_name}".encode()
            second = int(hashlib.md5(text, usedforsecurity=False).hexdigest()[:8], 16) & 0x7FFFFFFF
        handle = new_queue(
            "RandomShuffleQueueV2",
            name,
            component_types=dtypes,
            shapes=shape_attr(shapes),
            capacity=capacity,
            min_after_dequeue=min_after_dequeue,
            seed=first,
            seed2=second,
            shared_name=shared_name or "",
        )
        super().__init__(dtypes, shapes, names, handle)


@export("PaddingFIFOQueue", "queue.PaddingFIFOQueue", "io.PaddingFIFOQueue")
class PaddingFIFOQueue(QueueBase):
    """A FIFOQueue that pads elements dequeued together: sizes that vary are None in `shapes`.

    Args:
        capacity: As for `FIFOQueue`; the following ones, too.
        dtypes: As there.
        shapes: The shape of each component, of known rank.
        names: As there.
        shared_name: As there.
        name: As there.

    Raises:
        ValueError: There are not as many shapes as dtypes, or a rank is not known.
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "padding_fifo_queue",
    ) -> None:
        dtypes = type_list(dtypes)
        shapes = shape_list(shapes, unknown_dim_allowed=True)
        names = name_list(names, dtypes)
        if len(dtypes) != len(shapes or ()):
            raise ValueError(
                "Shapes must be provided for all components, but received "
                f"{len(dtypes)} dtypes and {len(shapes or ())} shapes."
            )
        handle = new_queue(
            "PaddingFIFOQueueV2",
            name,
            component_types=dtypes,
            shapes=shape_attr(shapes),
            capacity=capacity,
            shared_name=shared_name or "",
        )
        super().__init__(dtypes, shapes, names, handle)


@export("PriorityQueue", "queue.PriorityQueue", "io.PriorityQueue")
class PriorityQueue(QueueBase):
    """A queue that returns the element with the smallest priority value first.

    What is put in and taken out has the priority, an int64, before the components.

    Args:
        capacity: As for `FIFOQueue`; the following ones, too.
        types: The dtype of each component after the priority.
        shapes: Their shapes.
        names: As there; for the priority, too.
        shared_name: As there.
        name: As there.
    """

    def __init__(
        self,
        capacity: int,
        types: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "priority_queue",
    ) -> None:
        types = type_list(types)
        shapes = shape_list(shapes)
        handle = new_queue(
            "PriorityQueueV2",
            name,
            component_types=types,
            shapes=shape_attr(shapes),
            capacity=capacity,
            shared_name=shared_name or "",
        )
        with_priority = None if shapes is None else [(), *shapes]
        super().__init__([int64, *types], with_priority, names, handle)
