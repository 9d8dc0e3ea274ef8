"""`tf.queue`: the queues.

Made by `scripts/generate_api.py`.
"""

from sparkflow.queues.queue_base import QueueBase
from sparkflow.queues.queues import FIFOQueue, PaddingFIFOQueue, PriorityQueue, RandomShuffleQueue

__all__ = [
    "FIFOQueue",
    "PaddingFIFOQueue",
    "PriorityQueue",
    "QueueBase",
    "RandomShuffleQueue",
]
