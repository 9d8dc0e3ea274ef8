"""What `tf.train` offers, by module that defines it. Made by `scripts/generate_api.py`."""

from sparkflow.train import queue_runner
from sparkflow.legacy.input.batching import (
    batch,
    batch_join,
    maybe_batch,
    maybe_batch_join,
    maybe_shuffle_batch,
    maybe_shuffle_batch_join,
    shuffle_batch,
    shuffle_batch_join,
)
from sparkflow.legacy.input.producers import (
    input_producer,
    limit_epochs,
    match_filenames_once,
    range_input_producer,
    slice_input_producer,
    string_input_producer,
)
from sparkflow.legacy.supervisor import Supervisor
from sparkflow.legacy.sync_replicas import SyncReplicasOptimizer
from sparkflow.session.loops import LoopUpdate, StepLoop
from sparkflow.summary.writer import SummaryWriter
from sparkflow.train.checkpoints.checkpoint_manager import CheckpointManager
from sparkflow.train.checkpoints.importing import import_meta_graph
from sparkflow.train.checkpoints.initialising import init_from_checkpoint
from sparkflow.train.checkpoints.meta_graph import export_meta_graph
from sparkflow.train.checkpoints.object_checkpoint import Checkpoint
from sparkflow.train.checkpoints.reading import (
    CheckpointReader,
    NewCheckpointReader,
    checkpoints_iterator,
    list_variables,
    load_checkpoint,
    load_variable,
)
from sparkflow.train.checkpoints.saver import Saver
from sparkflow.train.checkpoints.state_file import (
    checkpoint_exists,
    generate_checkpoint_state_proto,
    get_checkpoint_mtimes,
    get_checkpoint_state,
    latest_checkpoint,
    remove_checkpoint,
    update_checkpoint_state,
)
from sparkflow.train.checkpoints.warm_starting import VocabInfo, warm_start
from sparkflow.train.clusters.cluster_spec import ClusterSpec
from sparkflow.train.clusters.device_setter import replica_device_setter
from sparkflow.train.clusters.server import Server
from sparkflow.train.graph_files import write_graph
from sparkflow.train.hooks.checkpoint_hook import CheckpointSaverHook, CheckpointSaverListener
from sparkflow.train.hooks.logging_hooks import (
    LoggingTensorHook,
    NanLossDuringTrainingError,
    NanTensorHook,
)
from sparkflow.train.hooks.profiler_hook import ProfilerHook
from sparkflow.train.hooks.step_hooks import (
    FeedFnHook,
    FinalOpsHook,
    GlobalStepWaiterHook,
    StepCounterHook,
    StopAtStepHook,
)
from sparkflow.train.hooks.step_timer import SecondOrStepTimer
from sparkflow.train.hooks.summary_hook import SummarySaverHook
from sparkflow.train.optimizers.adadelta import AdadeltaOptimizer
from sparkflow.train.optimizers.adagrad import AdagradOptimizer
from sparkflow.train.optimizers.adagrad_da import AdagradDAOptimizer
from sparkflow.train.optimizers.adam import AdamOptimizer
from sparkflow.train.optimizers.decay import (
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
from sparkflow.train.optimizers.ftrl import FtrlOptimizer
from sparkflow.train.optimizers.gradient_descent import GradientDescentOptimizer
from sparkflow.train.optimizers.momentum import MomentumOptimizer
from sparkflow.train.optimizers.moving_averages import ExponentialMovingAverage
from sparkflow.train.optimizers.optimizer import Optimizer
from sparkflow.train.optimizers.proximal import (
    ProximalAdagradOptimizer,
    ProximalGradientDescentOptimizer,
)
from sparkflow.train.optimizers.rmsprop import RMSPropOptimizer
from sparkflow.train.optimizers.rounding import set_rounding
from sparkflow.train.optimizers.strategy import AsyncReplication
from sparkflow.train.queue_runner import QueueRunner, add_queue_runner, start_queue_runners
from sparkflow.train.replication.all_reduce import AllReduceReplication
from sparkflow.train.replication.gradient_accumulation import GradientAccumulationOptimizer
from sparkflow.train.replication.local_sgd import LocalSgd
from sparkflow.train.replication.staleness import BoundedStaleness
from sparkflow.train.replication.sync import SyncReplication
from sparkflow.train.replication.wire_dtype import set_wire_dtype
from sparkflow.train.session_run_hook import (
    LoopLimits,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from sparkflow.train.sessions.coordinator import Coordinator, LooperThread
from sparkflow.train.sessions.monitored_session import MonitoredSession, SingularMonitoredSession
from sparkflow.train.sessions.monitored_training import MonitoredTrainingSession, basic_train_loop
from sparkflow.train.sessions.run_loop import LoopResult, run_loop, start_loop
from sparkflow.train.sessions.scaffold import Scaffold
from sparkflow.train.sessions.session_creators import (
    ChiefSessionCreator,
    SessionCreator,
    WorkerSessionCreator,
)
from sparkflow.train.sessions.session_manager import SessionManager
from sparkflow.train.step_counter import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
    global_step,
)
from sparkflow_runtime.events.event_file import read_events as summary_iterator
from sparkflow_runtime.protos.checkpoint_state_pb2 import CheckpointState
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef, JobDef
from sparkflow_runtime.protos.example_pb2 import Example, SequenceExample
from sparkflow_runtime.protos.feature_pb2 import (
    BytesList,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
)
from sparkflow_runtime.protos.queue_runner_pb2 import QueueRunnerDef
from sparkflow_runtime.protos.saver_pb2 import SaverDef
from sparkflow_runtime.protos.tensorflow_server_pb2 import ServerDef

__all__ = [
    "AdadeltaOptimizer",
    "AdagradDAOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "AllReduceReplication",
    "AsyncReplication",
    "BoundedStaleness",
    "BytesList",
    "Checkpoint",
    "CheckpointManager",
    "CheckpointReader",
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "CheckpointState",
    "ChiefSessionCreator",
    "ClusterDef",
    "ClusterSpec",
    "Coordinator",
    "Example",
    "ExponentialMovingAverage",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FeedFnHook",
    "FinalOpsHook",
    "FloatList",
    "FtrlOptimizer",
    "GlobalStepWaiterHook",
    "GradientAccumulationOptimizer",
    "GradientDescentOptimizer",
    "Int64List",
    "JobDef",
    "LocalSgd",
    "LoggingTensorHook",
    "LoopLimits",
    "LoopResult",
    "LoopUpdate",
    "LooperThread",
    "MomentumOptimizer",
    "MonitoredSession",
    "MonitoredTrainingSession",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "NewCheckpointReader",
    "Optimizer",
    "ProfilerHook",
    "ProximalAdagradOptimizer",
    "ProximalGradientDescentOptimizer",
    "QueueRunner",
    "QueueRunnerDef",
    "RMSPropOptimizer",
    "Saver",
    "SaverDef",
    "Scaffold",
    "SecondOrStepTimer",
    "SequenceExample",
    "Server",
    "ServerDef",
    "SessionCreator",
    "SessionManager",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "SingularMonitoredSession",
    "StepCounterHook",
    "StepLoop",
    "StopAtStepHook",
    "SummarySaverHook",
    "SummaryWriter",
    "Supervisor",
    "SyncReplicasOptimizer",
    "SyncReplication",
    "VocabInfo",
    "WorkerSessionCreator",
    "add_queue_runner",
    "assert_global_step",
    "basic_train_loop",
    "batch",
    "batch_join",
    "checkpoint_exists",
    "checkpoints_iterator",
    "cosine_decay",
    "cosine_decay_restarts",
    "create_global_step",
    "exponential_decay",
    "export_meta_graph",
    "generate_checkpoint_state_proto",
    "get_checkpoint_mtimes",
    "get_checkpoint_state",
    "get_global_step",
    "get_or_create_global_step",
    "global_step",
    "import_meta_graph",
    "init_from_checkpoint",
    "input_producer",
    "inverse_time_decay",
    "latest_checkpoint",
    "limit_epochs",
    "linear_cosine_decay",
    "list_variables",
    "load_checkpoint",
    "load_variable",
    "match_filenames_once",
    "maybe_batch",
    "maybe_batch_join",
    "maybe_shuffle_batch",
    "maybe_shuffle_batch_join",
    "natural_exp_decay",
    "noisy_linear_cosine_decay",
    "piecewise_constant",
    "piecewise_constant_decay",
    "polynomial_decay",
    "queue_runner",
    "range_input_producer",
    "remove_checkpoint",
    "replica_device_setter",
    "run_loop",
    "set_rounding",
    "set_wire_dtype",
    "shuffle_batch",
    "shuffle_batch_join",
    "slice_input_producer",
    "start_loop",
    "start_queue_runners",
    "string_input_producer",
    "summary_iterator",
    "update_checkpoint_state",
    "warm_start",
    "write_graph",
]
