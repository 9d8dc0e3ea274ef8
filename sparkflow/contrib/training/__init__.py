"""`tf.contrib.training`: hyperparameters, training steps, evaluation, placement, input buckets."""

from sparkflow.contrib.training.bucketing import bucket, bucket_by_sequence_length
from sparkflow.contrib.training.hparams import HParams, parse_values
from sparkflow.contrib.training.loops import (
    StopAfterNEvalsHook,
    SummaryAtEndHook,
    evaluate_once,
    evaluate_repeatedly,
    get_or_create_eval_step,
    rejection_sample,
    train,
)
from sparkflow.contrib.training.train_op import (
    add_gradients_summaries,
    clip_gradient_norms,
    clip_gradient_norms_fn,
    create_train_op,
    multiply_gradients,
)
from sparkflow.train import checkpoints_iterator
from sparkflow.train.checkpoints.reading import wait_for_new_checkpoint
from sparkflow.train.clusters.device_strategies import (
    GreedyLoadBalancingStrategy,
    RandomStrategy,
    byte_size_load_fn,
)

__all__ = [
    "GreedyLoadBalancingStrategy",
    "HParams",
    "RandomStrategy",
    "StopAfterNEvalsHook",
    "SummaryAtEndHook",
    "add_gradients_summaries",
    "bucket",
    "bucket_by_sequence_length",
    "byte_size_load_fn",
    "checkpoints_iterator",
    "clip_gradient_norms",
    "clip_gradient_norms_fn",
    "create_train_op",
    "evaluate_once",
    "evaluate_repeatedly",
    "get_or_create_eval_step",
    "multiply_gradients",
    "parse_values",
    "rejection_sample",
    "train",
    "wait_for_new_checkpoint",
]
