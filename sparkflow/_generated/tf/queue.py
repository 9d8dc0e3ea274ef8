"""`tf.queue`: the queues.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow.queues.queue_base": "QueueBase",
        "sparkflow.queues.queues": "FIFOQueue PaddingFIFOQueue PriorityQueue RandomShuffleQueue",
    },
)
