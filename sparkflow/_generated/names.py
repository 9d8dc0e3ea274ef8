"""The names of `tf.`, see `sparkflow/__init__.py`. Made by `scripts/generate_api.py`."""

from collections.abc import Mapping
from typing import Final

HOMES: Final[Mapping[str, str]] = {
    "sparkflow._generated.ops.control.debugging": "check_numerics",
    "sparkflow._generated.ops.control.ordering": "no_op stop_gradient",
    "sparkflow._generated.ops.elementwise.bitwise": "bitcast",
    "sparkflow._generated.ops.elementwise.comparison": (
        "equal greater greater_equal less less_equal logical_and logical_not logical_or not_equal"
    ),
    "sparkflow._generated.ops.elementwise.elementwise": (
        "acos acosh asin asinh atan atan2 atanh ceil cos cosh div_no_nan erf exp expm1 "
        "floor floor_div floordiv floormod is_finite is_inf is_nan log log1p maximum "
        "minimum multiply:mul multiply negative:neg negative pow realdiv reciprocal rint "
        "rsqrt sigmoid sign sin sinh sqrt square squared_difference subtract:sub subtract "
        "tan tanh truncatediv truncatemod"
    ),
    "sparkflow._generated.ops.elementwise.special": "betainc digamma erfc igamma igammac lgamma polygamma zeta",
    "sparkflow._generated.ops.files.files": "matching_files read_file write_file",
    "sparkflow._generated.ops.files.parsing": "decode_json_example parse_tensor",
    "sparkflow._generated.ops.indexing.reordering": (
        "cross dynamic_partition dynamic_stitch ensure_shape guarantee_const identity_n "
        "invert_permutation roll shape_n"
    ),
    "sparkflow._generated.ops.indexing.scattering": (
        "scatter_nd tensor_scatter_add tensor_scatter_add:tensor_scatter_nd_add "
        "tensor_scatter_max tensor_scatter_max:tensor_scatter_nd_max tensor_scatter_min "
        "tensor_scatter_min:tensor_scatter_nd_min "
        "tensor_scatter_sub:tensor_scatter_nd_sub tensor_scatter_sub "
        "tensor_scatter_update:tensor_scatter_nd_update tensor_scatter_update"
    ),
    "sparkflow._generated.ops.indexing.segment": (
        "segment_max segment_mean segment_min segment_prod segment_sum "
        "unsorted_segment_max unsorted_segment_min unsorted_segment_prod "
        "unsorted_segment_sum"
    ),
    "sparkflow._generated.ops.indexing.sorting": "unravel_index",
    "sparkflow._generated.ops.linalg.decompositions": "cholesky matrix_square_root",
    "sparkflow._generated.ops.linalg.diagonals": "diag diag_part matrix_band_part matrix_set_diag",
    "sparkflow._generated.ops.linalg.linear_systems": "matrix_determinant matrix_inverse matrix_solve matrix_triangular_solve",
    "sparkflow._generated.ops.nn.morphology": "extract_volume_patches",
    "sparkflow._generated.ops.reduction.reduction": "cumprod cumsum",
    "sparkflow._generated.ops.shape.arrays": "broadcast_to gather_nd reshape reverse reverse:reverse_v2 slice tile",
    "sparkflow._generated.ops.shape.blocks": "batch_to_space_nd depth_to_space space_to_batch_nd space_to_depth",
    "sparkflow._generated.ops.shape.constants": "fill lin_space lin_space:linspace placeholder_with_default",
    "sparkflow._generated.ops.sparse.sparse_math": "sparse_matmul",
    "sparkflow._generated.ops.state.state": "count_up_to is_variable_initialized",
    "sparkflow._generated.ops.strings.strings": (
        "as_string decode_base64 decode_compressed encode_base64 fingerprint string_join "
        "string_strip string_to_hash_bucket_fast string_to_hash_bucket_strong substr"
    ),
    "sparkflow.compat.switches": (
        "control_flow_v2_enabled disable_control_flow_v2 disable_tensor_equality "
        "disable_v2_behavior disable_v2_tensorshape enable_control_flow_v2 "
        "enable_tensor_equality enable_v2_behavior enable_v2_tensorshape"
    ),
    "sparkflow.differentiation.backward": "UnconnectedGradients gradients",
    "sparkflow.differentiation.derivatives": "AggregationMethod hessians",
    "sparkflow.differentiation.gradient_registry": (
        "RegisterGradient not_differentiable:NoGradient "
        "not_differentiable:NotDifferentiable not_differentiable:no_gradient"
    ),
    "sparkflow.differentiation.python_functions": (
        "custom_gradient grad_pass_through numpy_function py_func recompute_grad timestamp"
    ),
    "sparkflow.eager.mode": (
        "disable_eager_execution enable_eager_execution executing_eagerly "
        "executing_eagerly_outside_functions"
    ),
    "sparkflow.eager.py_function": "function py_function",
    "sparkflow.eager.tape": "GradientTape",
    "sparkflow.embedding.options": "CounterFilter EmbeddingVariableOption GlobalStepEvict L2WeightEvict",
    "sparkflow.embedding.variable": "EmbeddingVariable get_embedding_variable",
    "sparkflow.graph.collections": "GraphKeys",
    "sparkflow.graph.device_spec": "DeviceSpec",
    "sparkflow.graph.graph": "Graph",
    "sparkflow.graph.messages.importing": "import_graph_def",
    "sparkflow.graph.operation": "Operation",
    "sparkflow.graph.scopes": (
        "add_to_collection add_to_collections colocate_with container "
        "control_dependencies convert_to_tensor device get_collection get_collection_ref "
        "get_default_graph get_default_session init_scope name_scope op_scope "
        "reset_default_graph"
    ),
    "sparkflow.graph.shapes.dimension": "Dimension dimension_at_index dimension_value",
    "sparkflow.graph.shapes.tensor_shape": "TensorShape",
    "sparkflow.graph.slicing": "newaxis",
    "sparkflow.graph.tensor": "Tensor",
    "sparkflow.graph.values.indexed_slices": "IndexedSlices IndexedSlicesValue",
    "sparkflow.graph.values.sparse_tensor": "SparseTensor SparseTensorValue",
    "sparkflow.legacy.readers": (
        "FixedLengthRecordReader IdentityReader ReaderBase TFRecordReader TextLineReader "
        "WholeFileReader"
    ),
    "sparkflow.logging": "get_logger",
    "sparkflow.ops.checks.checks": (
        "assert_equal assert_greater assert_greater_equal assert_less assert_less_equal "
        "assert_near assert_negative assert_non_negative assert_non_positive "
        "assert_none_equal assert_positive is_non_decreasing is_strictly_increasing"
    ),
    "sparkflow.ops.checks.shape_checks": (
        "assert_integer assert_proper_iterable assert_rank assert_rank_at_least "
        "assert_rank_in assert_same_float_dtype assert_scalar assert_type "
        "is_numeric_tensor"
    ),
    "sparkflow.ops.control.cond": "case cond switch_case",
    "sparkflow.ops.control.critical_section": "CriticalSection",
    "sparkflow.ops.control.debugging": "Assert Print add_check_numerics_ops print verify_tensor_all_finite",
    "sparkflow.ops.control.higher_order": "foldl foldr map_fn scan vectorized_map",
    "sparkflow.ops.control.ordering": "group identity tuple_of:tuple",
    "sparkflow.ops.control.tensor_array": "TensorArray",
    "sparkflow.ops.control.while_loop": "while_loop",
    "sparkflow.ops.conversions": (
        "convert_to_tensor_or_indexed_slices convert_to_tensor_or_sparse_tensor "
        "is_symbolic_tensor is_tensor make_ndarray make_tensor_proto "
        "register_tensor_conversion_function"
    ),
    "sparkflow.ops.elementwise.comparison": "logical_xor where where_v2",
    "sparkflow.ops.elementwise.complex": "angle complex conj imag real",
    "sparkflow.ops.elementwise.elementwise": (
        "abs accumulate_n add add_n cast div divide log_sigmoid mod round saturate_cast "
        "scalar_mul to_bfloat16 to_complex128 to_complex64 to_double to_float to_int32 "
        "to_int64 truediv"
    ),
    "sparkflow.ops.files.parsing": (
        "decode_csv parse_example parse_single_example parse_single_sequence_example "
        "serialize_tensor"
    ),
    "sparkflow.ops.files.parsing_config": "FixedLenFeature FixedLenSequenceFeature SparseFeature VarLenFeature",
    "sparkflow.ops.indexing.histogram": "bincount confusion_matrix histogram_fixed_width histogram_fixed_width_bins",
    "sparkflow.ops.indexing.reordering": (
        "batch_gather broadcast_dynamic_shape broadcast_static_shape parallel_stack "
        "repeat reverse_sequence sequence_mask"
    ),
    "sparkflow.ops.indexing.segment": (
        "sparse_segment_mean sparse_segment_sqrt_n sparse_segment_sum "
        "unsorted_segment_mean unsorted_segment_sqrt_n"
    ),
    "sparkflow.ops.indexing.sorting": "argsort listdiff searchsorted setdiff1d sort unique_with_counts",
    "sparkflow.ops.linalg.decompositions": "qr self_adjoint_eig self_adjoint_eigvals svd",
    "sparkflow.ops.linalg.diagonals": "matrix_diag matrix_diag_part matrix_transpose trace",
    "sparkflow.ops.linalg.einsum": "einsum",
    "sparkflow.ops.linalg.fourier": "fft fft2d fft3d ifft ifft2d ifft3d",
    "sparkflow.ops.linalg.linalg": "eye matmul tensordot",
    "sparkflow.ops.linalg.linear_systems": "cholesky_solve matrix_solve_ls",
    "sparkflow.ops.nn.morphology": "extract_image_patches",
    "sparkflow.ops.nn.quantization": (
        "QUANTIZED_DTYPES dequantize fake_quant_with_min_max_args "
        "fake_quant_with_min_max_args_gradient fake_quant_with_min_max_vars "
        "fake_quant_with_min_max_vars_gradient fake_quant_with_min_max_vars_per_channel "
        "fake_quant_with_min_max_vars_per_channel_gradient quantize quantize_v2"
    ),
    "sparkflow.ops.random.random": (
        "get_seed multinomial random_crop random_gamma random_normal random_poisson "
        "random_shuffle random_uniform set_random_seed truncated_normal"
    ),
    "sparkflow.ops.reduction.clip": "clip_by_average_norm clip_by_global_norm clip_by_norm clip_by_value global_norm",
    "sparkflow.ops.reduction.norms": "norm",
    "sparkflow.ops.reduction.reduction": (
        "arg_max arg_min argmax argmin count_nonzero lbeta reduce_all reduce_any "
        "reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod reduce_sum"
    ),
    "sparkflow.ops.shape.arrays": (
        "boolean_mask concat expand_dims gather meshgrid one_hot pad rank shape size "
        "split squeeze stack:pack stack strided_slice transpose unique unstack:unpack "
        "unstack"
    ),
    "sparkflow.ops.shape.blocks": "batch_to_space required_space_to_batch_paddings space_to_batch",
    "sparkflow.ops.shape.constants": "constant get_static_value ones ones_like placeholder range zeros zeros_like",
    "sparkflow.ops.sparse.sparse_layout": (
        "deserialize_many_sparse serialize_many_sparse serialize_sparse sparse_concat "
        "sparse_fill_empty_rows sparse_mask sparse_merge sparse_placeholder "
        "sparse_reorder sparse_reset_shape sparse_reshape sparse_retain sparse_slice "
        "sparse_split sparse_tensor_to_dense sparse_to_dense sparse_to_indicator "
        "sparse_transpose"
    ),
    "sparkflow.ops.sparse.sparse_math": (
        "edit_distance sparse_add sparse_maximum sparse_minimum sparse_reduce_max "
        "sparse_reduce_max_sparse sparse_reduce_sum sparse_reduce_sum_sparse "
        "sparse_softmax sparse_tensor_dense_matmul"
    ),
    "sparkflow.ops.state.accumulators": "ConditionalAccumulator ConditionalAccumulatorBase SparseConditionalAccumulator",
    "sparkflow.ops.state.state": (
        "assign assign_add assign_sub batch_scatter_update scatter_add scatter_div "
        "scatter_max scatter_min scatter_mul scatter_nd_add scatter_nd_sub "
        "scatter_nd_update scatter_sub scatter_update"
    ),
    "sparkflow.ops.state.vocabulary": "tables_initializer:initialize_all_tables tables_initializer",
    "sparkflow.ops.strings.strings": "decode_raw reduce_join regex_replace string_to_hash_bucket string_to_number",
    "sparkflow.ops.tensor_spec": "IndexedSlicesSpec SparseTensorSpec TensorSpec TypeSpec type_spec_from_value",
    "sparkflow.ops.user_ops": "load_file_system_library load_library load_op_library register_op",
    "sparkflow.queues.queue_base": "QueueBase",
    "sparkflow.queues.queues": "FIFOQueue PaddingFIFOQueue PriorityQueue RandomShuffleQueue",
    "sparkflow.ragged.spec": "RaggedTensorSpec",
    "sparkflow.ragged.splitting": "string_split",
    "sparkflow.ragged.tensor": "RaggedTensor",
    "sparkflow.session.handles": "delete_session_tensor get_session_handle get_session_tensor",
    "sparkflow.session.session": "InteractiveSession Session",
    "sparkflow.summary.early": (
        "audio_summary histogram_summary image_summary merge_all_summaries merge_summary "
        "scalar_summary"
    ),
    "sparkflow.variables.creators": "VariableAggregation VariableSynchronization variable_creator_scope",
    "sparkflow.variables.initialization": (
        "all_variables assert_variables_initialized global_variables "
        "global_variables_initializer initialize_all_variables initialize_local_variables "
        "initialize_variables local_variables local_variables_initializer model_variables "
        "moving_average_variables report_uninitialized_variables trainable_variables "
        "variables_initializer"
    ),
    "sparkflow.variables.initializers": (
        "Constant:constant_initializer GlorotNormal:glorot_normal_initializer "
        "GlorotUniform:glorot_uniform_initializer Ones:ones_initializer "
        "Orthogonal:orthogonal_initializer RandomNormal:random_normal_initializer "
        "RandomUniform:random_uniform_initializer "
        "TruncatedNormal:truncated_normal_initializer "
        "UniformUnitScaling:uniform_unit_scaling_initializer "
        "VarianceScaling:variance_scaling_initializer Zeros:zeros_initializer"
    ),
    "sparkflow.variables.module": "Module",
    "sparkflow.variables.partitioners": (
        "fixed_size_partitioner min_max_variable_partitioner variable_axis_size_partitioner"
    ),
    "sparkflow.variables.resource_switch": "disable_resource_variables enable_resource_variables resource_variables_enabled",
    "sparkflow.variables.template": "make_template",
    "sparkflow.variables.variable": "Variable",
    "sparkflow.variables.variable_scope": (
        "AUTO_REUSE VariableScope create_partitioned_variables get_local_variable "
        "get_variable get_variable_scope no_regularizer variable_op_scope variable_scope"
    ),
    "sparkflow.version": (
        "COMPILER_VERSION CXX11_ABI_FLAG CXX_VERSION GIT_VERSION GRAPH_DEF_VERSION "
        "GRAPH_DEF_VERSION_MIN_CONSUMER GRAPH_DEF_VERSION_MIN_PRODUCER MONOLITHIC_BUILD "
        "VERSION"
    ),
    "sparkflow_runtime.dtypes": (
        "DType as_dtype bfloat16 bool_:bool complex128 complex64 float16 float16:half "
        "float32 float64:double float64 int16 int32 int64 int8 qint16 qint32 qint8 "
        "quint16 quint8 resource string uint16 uint32 uint64 uint8 variant"
    ),
    "sparkflow_runtime.errors": "OpError",
    "sparkflow_runtime.protos.attr_value_pb2": "AttrValue NameAttrList",
    "sparkflow_runtime.protos.config_pb2": "ConfigProto GPUOptions GraphOptions OptimizerOptions RunMetadata RunOptions",
    "sparkflow_runtime.protos.event_pb2": "Event LogMessage SessionLog",
    "sparkflow_runtime.protos.graph_pb2": "GraphDef",
    "sparkflow_runtime.protos.meta_graph_pb2": "MetaGraphDef TensorInfo",
    "sparkflow_runtime.protos.node_def_pb2": "NodeDef",
    "sparkflow_runtime.protos.summary_pb2": "HistogramProto Summary SummaryMetadata",
}
"""Per module that defines something, what it gives to `tf.`."""

MODULES: Final = (
    "app audio bitwise compat config contrib data debugging distributions dtypes "
    "errors estimator feature_column flags gfile graph_util image initializers io "
    "layers linalg logging lookup losses manip math metrics nest nn profiler python "
    "python_io quantization queue ragged random raw_ops resource_loader saved_model "
    "sets signal sparse spectral strings summary sysconfig test train user_ops "
    "version"
)
"""The modules in `tf.`."""

CONTRIB: Final = (
    "crf data distributions eager estimator feature_column framework image layers "
    "learn legacy_seq2seq lookup losses metrics nn opt predictor rnn seq2seq signal "
    "slim staging summary tensorboard training util"
)
"""The modules in `tf.contrib.`."""
