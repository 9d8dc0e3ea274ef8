"""`tf.summary`: what TensorBoard shows, and the files it reads."""

from sparkflow._api.loading import answers
from sparkflow.summary.summaries import (
    audio,
    get_summary_description,
    histogram,
    image,
    merge,
    merge_all,
    scalar,
    tensor_summary,
    text,
)
from sparkflow.summary.writer import FileWriter, FileWriterCache
from sparkflow_runtime.protos.event_pb2 import Event, SessionLog, TaggedRunMetadata
from sparkflow_runtime.protos.summary_pb2 import Summary, SummaryDescription

__getattr__ = answers("summary")

__all__ = [
    "Event",
    "FileWriter",
    "FileWriterCache",
    "SessionLog",
    "Summary",
    "SummaryDescription",
    "TaggedRunMetadata",
    "audio",
    "get_summary_description",
    "histogram",
    "image",
    "merge",
    "merge_all",
    "scalar",
    "tensor_summary",
    "text",
]
