"""The names of packages that have code of their own beside them. Made by `scripts/generate_api.py`."""

from collections.abc import Mapping
from typing import Final

HOMES: Final[Mapping[str, Mapping[str, str]]] = {
    "estimator": {
        "sparkflow.estimator.adding_metrics": "add_metrics",
        "sparkflow.estimator.estimator": "Estimator",
        "sparkflow.estimator.estimator_spec": "EstimatorSpec",
        "sparkflow.estimator.exporters": "BestExporter Exporter FinalExporter LatestExporter",
        "sparkflow.estimator.mode_keys": "ModeKeys",
        "sparkflow.estimator.run_config": "RunConfig",
        "sparkflow.estimator.training": "EvalSpec TrainSpec train_and_evaluate",
        "sparkflow.estimator.warm_start": "WarmStartSettings",
        "sparkflow.legacy.estimators.baseline": "BaselineClassifier BaselineRegressor",
        "sparkflow.legacy.estimators.combined": (
            "DNNLinearCombinedClassifier DNNLinearCombinedEstimator DNNLinearCombinedRegressor"
        ),
        "sparkflow.legacy.estimators.dnn": "DNNClassifier DNNEstimator DNNRegressor",
        "sparkflow.legacy.estimators.linear": "LinearClassifier LinearEstimator LinearRegressor",
        "sparkflow.legacy.estimators.parse_specs": "classifier_parse_example_spec regressor_parse_example_spec",
        "sparkflow.train.checkpoints.warm_starting": "VocabInfo",
        "sparkflow.train.hooks.checkpoint_hook": "CheckpointSaverHook CheckpointSaverListener",
        "sparkflow.train.hooks.logging_hooks": "LoggingTensorHook NanLossDuringTrainingError NanTensorHook",
        "sparkflow.train.hooks.profiler_hook": "ProfilerHook",
        "sparkflow.train.hooks.step_hooks": "FeedFnHook FinalOpsHook GlobalStepWaiterHook StepCounterHook StopAtStepHook",
        "sparkflow.train.hooks.step_timer": "SecondOrStepTimer",
        "sparkflow.train.hooks.summary_hook": "SummarySaverHook",
        "sparkflow.train.session_run_hook": "SessionRunArgs SessionRunContext SessionRunHook SessionRunValues",
    },
    "io": {
        "sparkflow._generated.ops.files.files": "matching_files read_file write_file",
        "sparkflow._generated.ops.files.parsing": "decode_json_example parse_tensor",
        "sparkflow._generated.ops.image.codec": (
            "decode_and_crop_jpeg decode_bmp decode_gif decode_jpeg decode_png encode_jpeg "
            "encode_png extract_jpeg_shape"
        ),
        "sparkflow._generated.ops.strings.strings": "decode_base64 decode_compressed encode_base64",
        "sparkflow.io.tfrecord": "TFRecordCompressionType TFRecordOptions TFRecordWriter tf_record_iterator",
        "sparkflow.legacy.input.producers": "match_filenames_once",
        "sparkflow.ops.files.parsing": (
            "decode_csv parse_example parse_sequence_example parse_single_example "
            "parse_single_sequence_example serialize_tensor"
        ),
        "sparkflow.ops.files.parsing_config": "FixedLenFeature FixedLenSequenceFeature SparseFeature VarLenFeature",
        "sparkflow.ops.image.codec": "decode_image is_jpeg",
        "sparkflow.ops.sparse.sparse_layout": "deserialize_many_sparse serialize_many_sparse serialize_sparse",
        "sparkflow.ops.strings.strings": "decode_raw",
        "sparkflow.queues.queue_base": "QueueBase",
        "sparkflow.queues.queues": "PaddingFIFOQueue PriorityQueue RandomShuffleQueue",
        "sparkflow.train.graph_files": "write_graph",
    },
    "train": {
        "sparkflow.legacy.input.batching": (
            "batch batch_join maybe_batch maybe_batch_join maybe_shuffle_batch "
            "maybe_shuffle_batch_join shuffle_batch shuffle_batch_join"
        ),
        "sparkflow.legacy.input.producers": (
            "input_producer limit_epochs match_filenames_once range_input_producer "
            "slice_input_producer string_input_producer"
        ),
        "sparkflow.legacy.supervisor": "Supervisor",
        "sparkflow.legacy.sync_replicas": "SyncReplicasOptimizer",
        "sparkflow.session.loops": "LoopUpdate StepLoop",
        "sparkflow.summary.writer": "SummaryWriter",
        "sparkflow.train.checkpoints.checkpoint_manager": "CheckpointManager",
        "sparkflow.train.checkpoints.importing": "import_meta_graph",
        "sparkflow.train.checkpoints.initialising": "init_from_checkpoint",
        "sparkflow.train.checkpoints.meta_graph": "export_meta_graph",
        "sparkflow.train.checkpoints.object_checkpoint": "Checkpoint",
        "sparkflow.train.checkpoints.reading": (
            "CheckpointReader NewCheckpointReader checkpoints_iterator list_variables "
            "load_checkpoint load_variable"
        ),
        "sparkflow.train.checkpoints.saver": "Saver",
        "sparkflow.train.checkpoints.state_file": (
            "checkpoint_exists generate_checkpoint_state_proto get_checkpoint_mtimes "
            "get_checkpoint_state latest_checkpoint remove_checkpoint update_checkpoint_state"
        ),
        "sparkflow.train.checkpoints.warm_starting": "VocabInfo warm_start",
        "sparkflow.train.clusters.cluster_spec": "ClusterSpec",
        "sparkflow.train.clusters.device_setter": "replica_device_setter",
        "sparkflow.train.clusters.server": "Server",
        "sparkflow.train.graph_files": "write_graph",
        "sparkflow.train.hooks.checkpoint_hook": "CheckpointSaverHook CheckpointSaverListener",
        "sparkflow.train.hooks.logging_hooks": "LoggingTensorHook NanLossDuringTrainingError NanTensorHook",
        "sparkflow.train.hooks.profiler_hook": "ProfilerHook",
        "sparkflow.train.hooks.step_hooks": "FeedFnHook FinalOpsHook GlobalStepWaiterHook StepCounterHook StopAtStepHook",
        "sparkflow.train.hooks.step_timer": "SecondOrStepTimer",
        "sparkflow.train.hooks.summary_hook": "SummarySaverHook",
        "sparkflow.train.optimizers.adadelta": "AdadeltaOptimizer",
        "sparkflow.train.optimizers.adagrad": "AdagradOptimizer",
        "sparkflow.train.optimizers.adagrad_da": "AdagradDAOptimizer",
        "sparkflow.train.optimizers.adam": "AdamOptimizer",
        "sparkflow.train.optimizers.decay": (
            "cosine_decay cosine_decay_restarts exponential_decay inverse_time_decay "
            "linear_cosine_decay natural_exp_decay noisy_linear_cosine_decay "
            "piecewise_constant piecewise_constant_decay polynomial_decay"
        ),
        "sparkflow.train.optimizers.ftrl": "FtrlOptimizer",
        "sparkflow.train.optimizers.gradient_descent": "GradientDescentOptimizer",
        "sparkflow.train.optimizers.momentum": "MomentumOptimizer",
        "sparkflow.train.optimizers.moving_averages": "ExponentialMovingAverage",
        "sparkflow.train.optimizers.optimizer": "Optimizer",
        "sparkflow.train.optimizers.proximal": "ProximalAdagradOptimizer ProximalGradientDescentOptimizer",
        "sparkflow.train.optimizers.rmsprop": "RMSPropOptimizer",
        "sparkflow.train.optimizers.rounding": "set_rounding",
        "sparkflow.train.optimizers.strategy": "AsyncReplication",
        "sparkflow.train.queue_runner": "QueueRunner add_queue_runner start_queue_runners",
        "sparkflow.train.replication.all_reduce": "AllReduceReplication",
        "sparkflow.train.replication.gradient_accumulation": "GradientAccumulationOptimizer",
        "sparkflow.train.replication.local_sgd": "LocalSgd",
        "sparkflow.train.replication.staleness": "BoundedStaleness",
        "sparkflow.train.replication.sync": "SyncReplication",
        "sparkflow.train.replication.wire_dtype": "set_wire_dtype",
        "sparkflow.train.session_run_hook": "LoopLimits SessionRunArgs SessionRunContext SessionRunHook SessionRunValues",
        "sparkflow.train.sessions.coordinator": "Coordinator LooperThread",
        "sparkflow.train.sessions.monitored_session": "MonitoredSession SingularMonitoredSession",
        "sparkflow.train.sessions.monitored_training": "MonitoredTrainingSession basic_train_loop",
        "sparkflow.train.sessions.run_loop": "LoopResult run_loop start_loop",
        "sparkflow.train.sessions.scaffold": "Scaffold",
        "sparkflow.train.sessions.session_creators": "ChiefSessionCreator SessionCreator WorkerSessionCreator",
        "sparkflow.train.sessions.session_manager": "SessionManager",
        "sparkflow.train.step_counter": (
            "assert_global_step create_global_step get_global_step get_or_create_global_step "
            "global_step"
        ),
        "sparkflow_runtime.events.event_file": "read_events:summary_iterator",
        "sparkflow_runtime.protos.checkpoint_state_pb2": "CheckpointState",
        "sparkflow_runtime.protos.cluster_pb2": "ClusterDef JobDef",
        "sparkflow_runtime.protos.example_pb2": "Example SequenceExample",
        "sparkflow_runtime.protos.feature_pb2": "BytesList Feature FeatureList FeatureLists Features FloatList Int64List",
        "sparkflow_runtime.protos.queue_runner_pb2": "QueueRunnerDef",
        "sparkflow_runtime.protos.saver_pb2": "SaverDef",
        "sparkflow_runtime.protos.tensorflow_server_pb2": "ServerDef",
    },
}
"""Per package and module that defines something, the names."""

SUBMODULES: Final[Mapping[str, str]] = {
    "estimator": "experimental export inputs",
    "io": "gfile",
    "train": "queue_runner",
}
"""Per package the modules in it that are public."""
