"""`tf.profiler`: which nodes take the time, the memory, the parameters."""

from sparkflow._api.loading import answers
from sparkflow.profiler.model_analyzer import Profiler, profile
from sparkflow.profiler.options import ProfileOptionBuilder
from sparkflow.profiler.passes import describe_passes
from sparkflow.profiler.statistics import (
    Statistics as GraphNodeProto,
    Statistics as MultiGraphNodeProto,
)

__getattr__ = answers("profiler")

__all__ = [
    "GraphNodeProto",
    "MultiGraphNodeProto",
    "ProfileOptionBuilder",
    "Profiler",
    "describe_passes",
    "profile",
]
