"""`tf.train`: optimizers, the step counter, clusters and servers."""

from sparkflow.train.adagrad import AdagradOptimizer
from sparkflow.train.adam import AdamOptimizer
from sparkflow.train.global_step import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
)
from sparkflow.train.gradient_descent import GradientDescentOptimizer
from sparkflow.train.momentum import MomentumOptimizer
from sparkflow.train.optimizer import Optimizer

__all__ = [
    "AdagradOptimizer",
    "AdamOptimizer",
    "GradientDescentOptimizer",
    "MomentumOptimizer",
    "Optimizer",
    "assert_global_step",
    "create_global_step",
    "get_global_step",
    "get_or_create_global_step",
]
