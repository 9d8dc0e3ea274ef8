"""What `scripts/generate_api.py` knows of the surface that no definition says itself."""

from collections.abc import Mapping
from typing import Final

FACES: Final[Mapping[str, str]] = {
    "audio": "`tf.audio`: WAV files of 16-bit samples.",
    "bitwise": "`tf.bitwise`: operations on the bits of integers.",
    "debugging": "`tf.debugging`: checks of tensors, while a graph is built and while it runs.",
    "dtypes": "`tf.dtypes`: the element types, under TensorFlow's names.",
    "image": "`tf.image`: functions on images.",
    "initializers": "`tf.initializers`: initial values of variables.",
    "linalg": "`tf.linalg`: linear algebra under its newer names.",
    "lookup": "`tf.lookup`: tables from keys to values; more of them are in `tf.contrib.lookup`.",
    "manip": "`tf.manip`: older names of functions that rearrange tensors.",
    "math": "`tf.math`: the mathematical functions under their newer names.",
    "math.special": "`tf.math.special`: gamma, error, zeta and Bessel functions, and integrals.",
    "nn": "`tf.nn`: what networks are made of.",
    "nn.rnn_cell": "`tf.nn.rnn_cell`: cells of recurrent networks, and what wraps them.",
    "python": "`from sparkflow.python.client import timeline`, as TensorFlow has it.",
    "python.client": "`from sparkflow.python.client import timeline, device_lib`.",
    "python.client.device_lib": "The devices of this process.",
    "python.client.session": "Sessions, as TensorFlow has them in this module too.",
    "python.client.timeline": "Traces of steps for the browser.",
    "python_io": "`tf.python_io`: TFRecord files outside of graphs.",
    "quantization": "`tf.quantization`: numbers as integers of few bits.",
    "queue": "`tf.queue`: the queues.",
    "random": "`tf.random`: random tensors under their newer names, and the seeds behind them.",
    "sets": "`tf.sets`: sets of numbers in the rows of tensors.",
    "signal": "`tf.signal`: Fourier transforms, windows and frames.",
    "sparse": "`tf.sparse`: sparse tensors under their newer names.",
    "spectral": "`tf.spectral`: Fourier transforms under their oldest names.",
    "strings": "`tf.strings`: operations on string tensors.",
    "user_ops": "`tf.user_ops`: TensorFlow's example of an own op; see `tf.register_op` for yours.",
}
"""Modules that only offer what others define, with their docstrings; they are generated."""

MODULES: Final = (
    "app compat config contrib data distributions errors estimator feature_column flags gfile "
    "graph_util io layers logging losses metrics nest profiler ragged raw_ops "
    "resource_loader saved_model summary sysconfig test train version"
)
"""The modules of `tf.` that have code of their own."""

PACKAGES: Final[Mapping[str, str]] = {
    "estimator": "experimental export inputs",
    "io": "gfile",
    "train": "queue_runner",
}
"""Those of them that offer what others define; and the modules in them that are public."""

CONTRIB: Final = (
    "crf data distributions eager estimator feature_column framework image layers learn "
    "legacy_seq2seq lookup losses metrics nn opt predictor rnn seq2seq signal slim staging summary "
    "tensorboard training util"
)
"""Those of `tf.contrib.`."""

ELSEWHERE: Final[Mapping[str, Mapping[str, str]]] = {
    "sparkflow.graph.slicing": {
        "newaxis": "newaxis",
    },
    "sparkflow.ops.checks.checks": {
        "assert_equal": "assert_equal debugging.assert_equal",
        "assert_greater": "assert_greater debugging.assert_greater",
        "assert_greater_equal": "assert_greater_equal debugging.assert_greater_equal",
        "assert_less": "assert_less debugging.assert_less",
        "assert_less_equal": "assert_less_equal debugging.assert_less_equal",
        "assert_negative": "assert_negative debugging.assert_negative",
        "assert_non_negative": "assert_non_negative debugging.assert_non_negative",
        "assert_non_positive": "assert_non_positive debugging.assert_non_positive",
        "assert_none_equal": "assert_none_equal debugging.assert_none_equal",
        "assert_positive": "assert_positive debugging.assert_positive",
    },
    "sparkflow.ops.linalg.fourier": {
        "fft": "fft signal.fft spectral.fft",
        "fft2d": "fft2d signal.fft2d spectral.fft2d",
        "fft3d": "fft3d signal.fft3d spectral.fft3d",
        "ifft": "ifft signal.ifft spectral.ifft",
        "ifft2d": "ifft2d signal.ifft2d spectral.ifft2d",
        "ifft3d": "ifft3d signal.ifft3d spectral.ifft3d",
        "irfft": "signal.irfft spectral.irfft",
        "irfft2d": "signal.irfft2d spectral.irfft2d",
        "irfft3d": "signal.irfft3d spectral.irfft3d",
        "rfft": "signal.rfft spectral.rfft",
        "rfft2d": "signal.rfft2d spectral.rfft2d",
        "rfft3d": "signal.rfft3d spectral.rfft3d",
    },
    "sparkflow.ops.nn.quantization": {
        "QUANTIZED_DTYPES": "QUANTIZED_DTYPES dtypes.QUANTIZED_DTYPES",
    },
    "sparkflow.ops.state.vocabulary": {
        "FastHashSpec": "lookup.FastHashSpec",
    },
    "sparkflow.variables.variable_scope": {
        "AUTO_REUSE": "AUTO_REUSE",
    },
    "sparkflow.version": {
        "COMPILER_VERSION": "COMPILER_VERSION",
        "CXX11_ABI_FLAG": "CXX11_ABI_FLAG",
        "CXX_VERSION": "CXX_VERSION",
        "GIT_VERSION": "GIT_VERSION",
        "GRAPH_DEF_VERSION": "GRAPH_DEF_VERSION",
        "GRAPH_DEF_VERSION_MIN_CONSUMER": "GRAPH_DEF_VERSION_MIN_CONSUMER",
        "GRAPH_DEF_VERSION_MIN_PRODUCER": "GRAPH_DEF_VERSION_MIN_PRODUCER",
        "MONOLITHIC_BUILD": "MONOLITHIC_BUILD",
        "VERSION": "VERSION",
    },
    "sparkflow_runtime.dtypes": {
        "DType": "DType dtypes.DType",
        "as_dtype": "as_dtype dtypes.as_dtype",
        "bfloat16": "bfloat16 dtypes.bfloat16",
        "bool_": "bool dtypes.bool",
        "complex128": "complex128 dtypes.complex128",
        "complex64": "complex64 dtypes.complex64",
        "float16": "float16 half dtypes.float16 dtypes.half",
        "float32": "float32 dtypes.float32",
        "float64": "double float64 dtypes.double dtypes.float64",
        "int16": "int16 dtypes.int16",
        "int32": "int32 dtypes.int32",
        "int64": "int64 dtypes.int64",
        "int8": "int8 dtypes.int8",
        "qint16": "qint16 dtypes.qint16",
        "qint32": "qint32 dtypes.qint32",
        "qint8": "qint8 dtypes.qint8",
        "quint16": "quint16 dtypes.quint16",
        "quint8": "quint8 dtypes.quint8",
        "resource": "resource dtypes.resource",
        "string": "string dtypes.string",
        "uint16": "uint16 dtypes.uint16",
        "uint32": "uint32 dtypes.uint32",
        "uint64": "uint64 dtypes.uint64",
        "uint8": "uint8 dtypes.uint8",
        "variant": "variant dtypes.variant",
    },
    "sparkflow_runtime.errors": {
        "OpError": "OpError",
    },
    "sparkflow_runtime.protos.attr_value_pb2": {
        "AttrValue": "AttrValue",
        "NameAttrList": "NameAttrList",
    },
    "sparkflow_runtime.protos.config_pb2": {
        "ConfigProto": "ConfigProto",
        "GPUOptions": "GPUOptions",
        "GraphOptions": "GraphOptions",
        "OptimizerOptions": "OptimizerOptions",
        "RunMetadata": "RunMetadata",
        "RunOptions": "RunOptions",
    },
    "sparkflow_runtime.protos.event_pb2": {
        "Event": "Event",
        "LogMessage": "LogMessage",
        "SessionLog": "SessionLog",
    },
    "sparkflow_runtime.protos.graph_pb2": {
        "GraphDef": "GraphDef",
    },
    "sparkflow_runtime.protos.meta_graph_pb2": {
        "MetaGraphDef": "MetaGraphDef",
        "TensorInfo": "TensorInfo",
    },
    "sparkflow_runtime.protos.node_def_pb2": {
        "NodeDef": "NodeDef",
    },
    "sparkflow_runtime.protos.summary_pb2": {
        "HistogramProto": "HistogramProto",
        "Summary": "Summary",
        "SummaryMetadata": "SummaryMetadata",
    },
    "sparkflow.train.optimizers.decay": {
        "piecewise_constant_decay": "train.piecewise_constant_decay",
    },
    "sparkflow_runtime.protos.checkpoint_state_pb2": {
        "CheckpointState": "train.CheckpointState",
    },
    "sparkflow_runtime.protos.cluster_pb2": {
        "ClusterDef": "train.ClusterDef",
        "JobDef": "train.JobDef",
    },
    "sparkflow_runtime.protos.example_pb2": {
        "Example": "train.Example",
        "SequenceExample": "train.SequenceExample",
    },
    "sparkflow_runtime.protos.feature_pb2": {
        "BytesList": "train.BytesList",
        "Feature": "train.Feature",
        "FeatureList": "train.FeatureList",
        "FeatureLists": "train.FeatureLists",
        "Features": "train.Features",
        "FloatList": "train.FloatList",
        "Int64List": "train.Int64List",
    },
    "sparkflow_runtime.protos.queue_runner_pb2": {
        "QueueRunnerDef": "train.QueueRunnerDef",
    },
    "sparkflow_runtime.protos.saver_pb2": {
        "SaverDef": "train.SaverDef",
    },
    "sparkflow_runtime.protos.tensorflow_server_pb2": {
        "ServerDef": "train.ServerDef",
    },
    "sparkflow_runtime.events.event_file": {
        "read_events": "train.summary_iterator",
    },
}
"""Constants, and what the runtime defines: per module and name there, the public names."""
