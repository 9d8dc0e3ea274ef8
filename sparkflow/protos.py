"""The protobuf messages that TensorFlow offers under `tf.*`."""

from sparkflow_runtime.protos.attr_value_pb2 import AttrValue, NameAttrList
from sparkflow_runtime.protos.config_pb2 import (
    ConfigProto,
    GPUOptions,
    GraphOptions,
    OptimizerOptions,
    RunMetadata,
    RunOptions,
)
from sparkflow_runtime.protos.event_pb2 import Event, LogMessage, SessionLog
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.meta_graph_pb2 import MetaGraphDef, TensorInfo
from sparkflow_runtime.protos.node_def_pb2 import NodeDef
from sparkflow_runtime.protos.summary_pb2 import HistogramProto, Summary, SummaryMetadata

__all__ = [
    "AttrValue",
    "ConfigProto",
    "Event",
    "GPUOptions",
    "GraphDef",
    "GraphOptions",
    "HistogramProto",
    "LogMessage",
    "MetaGraphDef",
    "NameAttrList",
    "NodeDef",
    "OptimizerOptions",
    "RunMetadata",
    "RunOptions",
    "SessionLog",
    "Summary",
    "SummaryMetadata",
    "TensorInfo",
]
