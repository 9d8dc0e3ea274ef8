"""What TensorFlow offers and sparkflow does not, and what to use instead.

Asking a module for such a name is an AttributeError that says it. So `hasattr` tells programs the
truth, and people read what to do. Names are listed under TensorFlow's full path without `tf.`; `*`
stands for anything. The first that matches counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

_TPU = "there is no TPU back end; kernels run on CPUs and CUDA GPUs (docs/gpu.md)"
_STRATEGY = (
    "SparkTrainer(syncMode=...) distributes training; tf.train.replica_device_setter and "
    "tf.train.SyncReplicasOptimizer do in programs of one's own (docs/replication.md)"
)
_STATELESS = "use tf.random.stateless_* with seeds of your own, or tf.set_random_seed"
_LITE = (
    "TensorFlow Lite is not offered; model.toONNX(path) and tf.saved_model write files for other "
    "runtimes"
)
_COMPILED = "graphs are compiled by themselves (docs/how_a_step_runs.md): run them in a tf.Session"
_KERAS = (
    "tf.keras is no part of the graph interface that sparkflow offers: build layers with tf.layers "
    "(tf.layers.dense, tf.layers.conv2d, ...), optimizers with tf.train (tf.train.AdamOptimizer, "
    "...), losses with tf.losses and metrics with tf.metrics; sparkflow.spark.SparkDNNClassifier "
    "and SparkDNNRegressor need no graph at all"
)
_DEBUG = "use tf.add_check_numerics_ops or tf.debugging.check_numerics"
_EXTENSION = "pass tensors in tuples, dictionaries or named tuples (tf.nest)"
_SCALE = "multiply the loss by a constant and divide the gradients by it before apply_gradients"
_LOW_PRECISION = "its smallest floating-point types are tf.bfloat16 and tf.float16"
_FAKE_QUANT = "use tf.quantization.fake_quant_with_min_max_args, dequantize and floating point"
_DATASET_FILES = "write tf.data.experimental.TFRecordWriter and read tf.data.TFRecordDataset"
_SERVICE = "let each worker read its shard: Dataset.shard, or fitOnParquet of sparkflow.spark"
_STRUCTURES = "use Dataset.element_spec, or output_types, output_shapes and output_classes"
_SHARDING = "use tf.train.Saver(sharded=True)"

ABSENT: Final[Mapping[str, str]] = {
    "keras": _KERAS,
    "keras.*": _KERAS,
    "nn.rnn_cell.*": "use the cells that tf.nn.rnn_cell lists",
    "optimizers": "optimizers are in tf.train: tf.train.AdamOptimizer, ...",
    "hub": "TensorFlow Hub is a package of its own and loads TensorFlow; tf.saved_model.load reads "
    "models that are on disk",
    "LMDBReader": "use tf.TFRecordReader, or tf.data.Dataset.from_generator over the lmdb package",
    "TensorArraySpec": "pass tensors: `TensorArray.stack()` gives one",
    "NoneTensorSpec": "leave the component out",
    "OptionalSpec": "use tf.data.experimental.Optional and its value_structure",
    "autograph*": "write tf.cond, tf.while_loop and tf.map_fn; functions run as Python",
    "check_pinned": "memory for transfers is pinned by itself",
    "conv": "use tf.nn.convolution, tf.nn.conv1d, conv2d or conv3d",
    "conv2d_backprop_*_v2": "use tf.nn.conv2d_backprop_filter and tf.nn.conv2d_backprop_input",
    "*fftnd": "use tf.signal.fft, fft2d, fft3d and their inverses",
    "fftnd": "use tf.signal.fft, fft2d, fft3d and their inverses",
    "nondifferentiable_batch_function": "collect requests before session.run",
    "quantized_concat": _FAKE_QUANT,
    "quantization.quantized_concat": _FAKE_QUANT,
    "quantization.experimental*": _FAKE_QUANT,
    "nn.quantized_*": _FAKE_QUANT,
    "approx_top_k": "use tf.math.approx_max_k or tf.nn.top_k",
    "random_index_shuffle": "use tf.random.shuffle of tf.range(n)",
    "random.experimental.index_shuffle": "use tf.random.shuffle of tf.range(n)",
    "random.experimental.stateless_shuffle": "sort by tf.random.stateless_uniform numbers",
    "random.stateless_binomial": "add up tf.random.stateless_uniform(...) < p",
    "random*": _STATELESS,
    "*flags.tf_decorator*": "use functools.wraps",
    "config.optimizer*": "use ConfigProto.graph_options of the session",
    "config.experimental.*mlir*": _COMPILED,
    "config.experimental.*": "use tf.ConfigProto of the session",
    "config.*functions*eagerly": "functions run as Python in any case; see tf.py_function",
    "config.experimental_connect_*": "use tf.Session('grpc://host:port') or tf.train.Server",
    "config.*logical_device*": "use ConfigProto(device_count={'CPU': n})",
    "config.LogicalDeviceConfiguration": "use ConfigProto(device_count={'CPU': n})",
    "data.experimental.service*": _SERVICE,
    "data.experimental.*Structure": _STRUCTURES,
    "data.experimental.Reducer": "use group_by_window with Dataset.reduce",
    "data.experimental.group_by_reducer": "use group_by_window with Dataset.reduce",
    "data.experimental.SqlDataset": "use Dataset.from_generator over sqlite3",
    "data.experimental.distributed_save": _DATASET_FILES,
    "data.experimental.snapshot": "use Dataset.cache(filename)",
    "data.experimental.*able_from_dataset": "use tf.contrib.lookup.KeyValueTensorInitializer",
    "data.experimental.DatasetInitializer": "use tf.contrib.lookup.KeyValueTensorInitializer",
    "data.experimental.make_saveable_from_iterator": "save the step and use Dataset.skip",
    "data.experimental.*_variant": "pass the dataset itself",
    "data.experimental.*": "use the methods of tf.data.Dataset; this changes no element",
    "data.DatasetSpec": _STRUCTURES,
    "data.NumpyIterator": "use what Dataset.as_numpy_iterator gives",
    "lookup.experimental*": "use tf.lookup.MutableHashTable",
    "debugging.*traceback_filtering*": "errors name the line of your program that made the node",
    "debugging.*log_device_placement": "use tf.ConfigProto(log_device_placement=True)",
    "debugging.*": _DEBUG,
    "distribute*": _STRATEGY,
    "distributions.DirichletMultinomial": "draw from tf.distributions.Dirichlet, then Multinomial",
    "dtypes.as_string": "use tf.strings.as_string",
    "dtypes.experimental*": _LOW_PRECISION,
    "experimental.float*": _LOW_PRECISION,
    "experimental.*int?": _LOW_PRECISION,
    "experimental.*xtension*": _EXTENSION,
    "experimental.StructuredTensor": _EXTENSION,
    "experimental.*Ragged*": "use tf.RaggedTensor",
    "experimental.RowPartition": "use tf.RaggedTensor",
    "experimental.Optional": "use tf.data.experimental.Optional",
    "experimental.async_*": "sessions run asynchronously by threads",
    "experimental.*filesystem*": "use fsspec's URLs with tf.gfile",
    "experimental*": "it belongs to TensorFlow 2: build a graph, or use tf.enable_eager_execution",
    "image.decode_jxl": "convert the images to PNG or JPEG",
    "image.decode_webp": "convert the images to PNG or JPEG",
    "io.decode_jxl": "convert the images to PNG or JPEG",
    "io.decode_webp": "convert the images to PNG or JPEG",
    "image.generate_bounding_box_proposals": "use tf.image.non_max_suppression of decoded boxes",
    "io.decode_proto": "use tf.io.parse_example, or tf.py_func with the message's class",
    "io.encode_proto": "use tf.py_func with the message's class",
    "io.RaggedFeature": "use tf.io.VarLenFeature and tf.RaggedTensor.from_sparse",
    "linalg.LinearOperatorLowerTriangular": "use tf.matrix_band_part(matrix, -1, 0), which is what "
    "its to_dense() gives",
    "linalg.LinearOperator*": "use the matrices themselves with tf.linalg, or functions on vectors",
    "linalg.eigh_tridiagonal": "use tf.linalg.eigh of the dense matrix",
    "linalg.experimental*": "use tf.linalg.solve, cholesky_solve or a tf.while_loop",
    "lite*": _LITE,
    "mixed_precision*": _SCALE,
    "mlir*": _COMPILED,
    "xla*": _COMPILED,
    "nn.experimental*": "use tf.nn.dropout with a seed, or tf.random.stateless_uniform",
    "profiler.*Proto": "use tf.profiler.profile",
    "profiler.*": "use tf.profiler.profile",
    "ragged.cross*": "use tf.sparse.cross of tensors from to_sparse()",
    "ragged_fill_empty_rows*": "use tf.sparse.fill_empty_rows of rt.to_sparse()",
    "saved_model.experimental*": "use tf.saved_model.Builder or simple_save",
    "saved_model.SaveOptions": "use tf.saved_model.Builder or simple_save",
    "saved_model.Asset": "use the assets_collection of tf.saved_model.Builder",
    "saved_model.save": "use tf.saved_model.Builder or simple_save",
    "saved_model.load_v2": "use tf.saved_model.load(session, tags, folder)",
    "saved_model.signature_def_utils.MethodNameUpdater": "build the SignatureDef anew",
    "signal.*mdct": "use tf.signal.dct of windowed frames",
    "signal.kaiser_bessel_derived_window": "use tf.signal.kaiser_window",
    "math.sobol_sample": "use tf.random.uniform, or scipy.stats.qmc and tf.constant",
    "strings.unicode_script": "use Python's unicodedata in tf.py_func",
    "sparse.bincount": "use tf.math.bincount of tf.sparse.to_dense",
    "summary.all_v2_summary_ops": "use tf.contrib.summary.all_summary_ops",
    "summary.initialize": "use tf.contrib.summary.initialize",
    "test.experimental*": "run what is asked for: session.run waits for it",
    "test.is_cpu_target_available": "the CPU is this machine's",
    "test.*": "use pytest's skip and parametrize",
    "tpu*": _TPU,
    "wrap_function": "use tf.make_template, or tf.import_graph_def with its input_map",
    "train.CheckpointOptions": "pass options to tf.train.CheckpointManager",
    "train.do_quantize_training_on_graphdef": _FAKE_QUANT,
    "train.sdca_*": "use tf.train.FtrlOptimizer or ProximalAdagradOptimizer",
    "train.experimental.*Loss*": _SCALE,
    "train.experimental.*mixed_precision*": _SCALE,
    "train.experimental.PythonState": "keep a tf.Variable and load() it",
    "train.experimental": f"for mixed precision, {_SCALE}; for files in parts, {_SHARDING}",
    "train.experimental*": _SHARDING,
    "types*": "annotate with tf.Tensor",
    "contrib.cudnn_rnn": "use tf.contrib.rnn.LSTMBlockFusedCell or tf.nn.dynamic_rnn",
    "contrib.grid_rnn": "use tf.nn.rnn_cell",
    "contrib.memory_stats": "use RunOptions.FULL_TRACE with RunMetadata",
    "contrib.model_pruning": "mask the weights in the graph",
    "contrib.tensorrt": "run the graph in a session",
    "contrib.tpu": "use tf.estimator with CPUs and GPUs",
    "contrib.*": "see docs/contrib.md",
}


def instead_of(path: str) -> str | None:
    """The replacement for `path` (such as `linalg.LinearOperator`), None if none is listed."""
    for pattern, hint in ABSENT.items():
        if fnmatchcase(path, pattern):
            return hint
    return None
