"""The protobuf messages that TensorFlow offers under `tf.*`."""

from sparkflow_runtime.protos.attr_value_pb2 import AttrValue
from sparkflow_runtime.protos.config_pb2 import (
    ConfigProto,
    GPUOptions,
    GraphOptions,
    OptimizerOptions,
    RunMetadata,
    RunOptions,
)
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef

__all__ = [
    "AttrValue",
    "ConfigProto",
    "GPUOptions",
    "GraphDef",
    "GraphOptions",
    "NodeDef",
    "OptimizerOptions",
    "RunMetadata",
    "RunOptions",
]
