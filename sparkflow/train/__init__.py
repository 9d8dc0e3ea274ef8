"""`tf.train`: optimizers, the step counter, clusters and servers."""

from sparkflow.summary.writer import SummaryWriter
from sparkflow.train.adadelta import AdadeltaOptimizer
from sparkflow.train.adagrad import AdagradOptimizer
from sparkflow.train.adagrad_da import AdagradDAOptimizer
from sparkflow.train.adam import AdamOptimizer
from sparkflow.train.cluster_spec import ClusterSpec
from sparkflow.train.decay import (
    cosine_decay,
    cosine_decay_restarts,
    exponential_decay,
    inverse_time_decay,
    linear_cosine_decay,
    natural_exp_decay,
    noisy_linear_cosine_decay,
    piecewise_constant,
    piecewise_constant_decay,
    polynomial_decay,
)
from sparkflow.train.device_setter import replica_device_setter
from sparkflow.train.ftrl import FtrlOptimizer
from sparkflow.train.global_step import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
)
from sparkflow.train.gradient_descent import GradientDescentOptimizer
from sparkflow.train.momentum import MomentumOptimizer
from sparkflow.train.moving_averages import ExponentialMovingAverage
from sparkflow.train.optimizer import Optimizer
from sparkflow.train.proximal import (
    ProximalAdagradOptimizer,
    ProximalGradientDescentOptimizer,
)
from sparkflow.train.rmsprop import RMSPropOptimizer
from sparkflow.train.server import Server
from sparkflow_runtime.events.event_file import read_events as summary_iterator
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef, JobDef
from sparkflow_runtime.protos.tensorflow_server_pb2 import ServerDef

__all__ = [
    "AdadeltaOptimizer",
    "AdagradDAOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "ClusterDef",
    "ClusterSpec",
    "ExponentialMovingAverage",
    "FtrlOptimizer",
    "GradientDescentOptimizer",
    "JobDef",
    "MomentumOptimizer",
    "Optimizer",
    "ProximalAdagradOptimizer",
    "ProximalGradientDescentOptimizer",
    "RMSPropOptimizer",
    "Server",
    "ServerDef",
    "SummaryWriter",
    "assert_global_step",
    "cosine_decay",
    "cosine_decay_restarts",
    "create_global_step",
    "exponential_decay",
    "get_global_step",
    "get_or_create_global_step",
    "inverse_time_decay",
    "linear_cosine_decay",
    "natural_exp_decay",
    "noisy_linear_cosine_decay",
    "piecewise_constant",
    "piecewise_constant_decay",
    "polynomial_decay",
    "replica_device_setter",
    "summary_iterator",
]
