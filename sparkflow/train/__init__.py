"""`tf.train`: optimizers, the step counter, clusters and servers."""

from sparkflow.summary.writer import SummaryWriter
from sparkflow.train.adagrad import AdagradOptimizer
from sparkflow.train.adam import AdamOptimizer
from sparkflow.train.cluster_spec import ClusterSpec
from sparkflow.train.device_setter import replica_device_setter
from sparkflow.train.global_step import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
)
from sparkflow.train.gradient_descent import GradientDescentOptimizer
from sparkflow.train.momentum import MomentumOptimizer
from sparkflow.train.optimizer import Optimizer
from sparkflow.train.server import Server
from sparkflow_runtime.events.event_file import read_events as summary_iterator
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef, JobDef
from sparkflow_runtime.protos.tensorflow_server_pb2 import ServerDef

__all__ = [
    "AdagradOptimizer",
    "AdamOptimizer",
    "ClusterDef",
    "ClusterSpec",
    "GradientDescentOptimizer",
    "JobDef",
    "MomentumOptimizer",
    "Optimizer",
    "Server",
    "ServerDef",
    "SummaryWriter",
    "assert_global_step",
    "create_global_step",
    "get_global_step",
    "get_or_create_global_step",
    "replica_device_setter",
    "summary_iterator",
]
