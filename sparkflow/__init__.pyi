"""What `import sparkflow as tf` offers, by module; `__init__.py` loads each on first use.

One block per module. A name must not be that of a module in this folder, unless it is that module.
"""

from . import (
    app as app,
    audio as audio,
    bitwise as bitwise,
    compat as compat,
    config as config,
    contrib as contrib,
    data as data,
    debugging as debugging,
    distributions as distributions,
    dtypes as dtypes,
    errors as errors,
    estimator as estimator,
    feature_column as feature_column,
    flags as flags,
    gfile as gfile,
    graph_util as graph_util,
    image as image,
    initializers as initializers,
    io as io,
    layers as layers,
    linalg as linalg,
    logging as logging,
    lookup as lookup,
    losses as losses,
    manip as manip,
    math as math,
    metrics as metrics,
    nest as nest,
    nn as nn,
    profiler as profiler,
    python as python,
    python_io as python_io,
    quantization as quantization,
    queue as queue,
    ragged as ragged,
    random as random,
    raw_ops as raw_ops,
    resource_loader as resource_loader,
    saved_model as saved_model,
    sets as sets,
    signal as signal,
    sparse as sparse,
    spectral as spectral,
    strings as strings,
    summary as summary,
    sysconfig as sysconfig,
    test as test,
    train as train,
    user_ops as user_ops,
    version as version,
)
from .backward import (
    UnconnectedGradients as UnconnectedGradients,
    gradients as gradients,
)
from .compat.switches import (
    control_flow_v2_enabled as control_flow_v2_enabled,
    disable_control_flow_v2 as disable_control_flow_v2,
    disable_resource_variables as disable_resource_variables,
    disable_tensor_equality as disable_tensor_equality,
    disable_v2_behavior as disable_v2_behavior,
    disable_v2_tensorshape as disable_v2_tensorshape,
    enable_control_flow_v2 as enable_control_flow_v2,
    enable_resource_variables as enable_resource_variables,
    enable_tensor_equality as enable_tensor_equality,
    enable_v2_behavior as enable_v2_behavior,
    enable_v2_tensorshape as enable_v2_tensorshape,
    resource_variables_enabled as resource_variables_enabled,
)
from .derivatives import (
    AggregationMethod as AggregationMethod,
    hessians as hessians,
)
from .dtypes import (
    QUANTIZED_DTYPES as QUANTIZED_DTYPES,
    DType as DType,
    as_dtype as as_dtype,
    bfloat16 as bfloat16,
    bool as bool,
    complex64 as complex64,
    complex128 as complex128,
    double as double,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    half as half,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    qint8 as qint8,
    qint16 as qint16,
    qint32 as qint32,
    quint8 as quint8,
    quint16 as quint16,
    resource as resource,
    string as string,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
    variant as variant,
)
from .eager.mode import (
    disable_eager_execution as disable_eager_execution,
    enable_eager_execution as enable_eager_execution,
    executing_eagerly as executing_eagerly,
    executing_eagerly_outside_functions as executing_eagerly_outside_functions,
)
from .eager.tape import (
    GradientTape as GradientTape,
)
from .embedding.options import (
    CounterFilter as CounterFilter,
    EmbeddingVariableOption as EmbeddingVariableOption,
    GlobalStepEvict as GlobalStepEvict,
    L2WeightEvict as L2WeightEvict,
)
from .embedding.variable import (
    EmbeddingVariable as EmbeddingVariable,
    get_embedding_variable as get_embedding_variable,
)
from .errors import (
    OpError as OpError,
)
from .gradient_registry import (
    NoGradient as NoGradient,
    NotDifferentiable as NotDifferentiable,
    RegisterGradient as RegisterGradient,
    no_gradient as no_gradient,
)
from .graph.collections import (
    GraphKeys as GraphKeys,
)
from .graph.device_spec import (
    DeviceSpec as DeviceSpec,
)
from .graph.dimension import (
    Dimension as Dimension,
    dimension_at_index as dimension_at_index,
    dimension_value as dimension_value,
)
from .graph.graph import (
    Graph as Graph,
)
from .graph.importing import (
    import_graph_def as import_graph_def,
)
from .graph.indexed_slices import (
    IndexedSlices as IndexedSlices,
    IndexedSlicesValue as IndexedSlicesValue,
)
from .graph.operation import (
    Operation as Operation,
)
from .graph.scopes import (
    add_to_collection as add_to_collection,
    add_to_collections as add_to_collections,
    colocate_with as colocate_with,
    container as container,
    control_dependencies as control_dependencies,
    convert_to_tensor as convert_to_tensor,
    device as device,
    get_collection as get_collection,
    get_collection_ref as get_collection_ref,
    get_default_graph as get_default_graph,
    get_default_session as get_default_session,
    init_scope as init_scope,
    name_scope as name_scope,
    reset_default_graph as reset_default_graph,
)
from .graph.slicing import (
    newaxis as newaxis,
)
from .graph.sparse_tensor import (
    SparseTensor as SparseTensor,
    SparseTensorValue as SparseTensorValue,
)
from .graph.tensor import (
    Tensor as Tensor,
)
from .graph.tensor_shape import (
    TensorShape as TensorShape,
)
from .initializers import (
    constant_initializer as constant_initializer,
    glorot_normal_initializer as glorot_normal_initializer,
    glorot_uniform_initializer as glorot_uniform_initializer,
    ones_initializer as ones_initializer,
    orthogonal_initializer as orthogonal_initializer,
    random_normal_initializer as random_normal_initializer,
    random_uniform_initializer as random_uniform_initializer,
    truncated_normal_initializer as truncated_normal_initializer,
    uniform_unit_scaling_initializer as uniform_unit_scaling_initializer,
    variance_scaling_initializer as variance_scaling_initializer,
    zeros_initializer as zeros_initializer,
)
from .logging import (
    get_logger as get_logger,
)
from .ops.accumulators import (
    ConditionalAccumulator as ConditionalAccumulator,
    ConditionalAccumulatorBase as ConditionalAccumulatorBase,
    SparseConditionalAccumulator as SparseConditionalAccumulator,
)
from .ops.aliases import (
    mul as mul,
    neg as neg,
    pack as pack,
    reverse_v2 as reverse_v2,
    sub as sub,
    tuple as tuple,
    unpack as unpack,
)
from .ops.arrays import (
    boolean_mask as boolean_mask,
    broadcast_to as broadcast_to,
    concat as concat,
    expand_dims as expand_dims,
    gather as gather,
    gather_nd as gather_nd,
    meshgrid as meshgrid,
    one_hot as one_hot,
    pad as pad,
    rank as rank,
    reshape as reshape,
    reverse as reverse,
    shape as shape,
    size as size,
    slice as slice,
    split as split,
    squeeze as squeeze,
    stack as stack,
    strided_slice as strided_slice,
    tile as tile,
    transpose as transpose,
    unique as unique,
    unstack as unstack,
)
from .ops.blocks import (
    batch_to_space as batch_to_space,
    batch_to_space_nd as batch_to_space_nd,
    depth_to_space as depth_to_space,
    required_space_to_batch_paddings as required_space_to_batch_paddings,
    space_to_batch as space_to_batch,
    space_to_batch_nd as space_to_batch_nd,
    space_to_depth as space_to_depth,
)
from .ops.clip import (
    clip_by_average_norm as clip_by_average_norm,
    clip_by_global_norm as clip_by_global_norm,
    clip_by_norm as clip_by_norm,
    clip_by_value as clip_by_value,
    global_norm as global_norm,
)
from .ops.comparison import (
    equal as equal,
    greater as greater,
    greater_equal as greater_equal,
    less as less,
    less_equal as less_equal,
    logical_and as logical_and,
    logical_not as logical_not,
    logical_or as logical_or,
    logical_xor as logical_xor,
    not_equal as not_equal,
    where as where,
    where_v2 as where_v2,
)
from .ops.constants import (
    constant as constant,
    fill as fill,
    get_static_value as get_static_value,
    lin_space as lin_space,
    linspace as linspace,
    ones as ones,
    ones_like as ones_like,
    placeholder as placeholder,
    placeholder_with_default as placeholder_with_default,
    range as range,
    zeros as zeros,
    zeros_like as zeros_like,
)
from .ops.control import (
    group as group,
    identity as identity,
    no_op as no_op,
    stop_gradient as stop_gradient,
)
from .ops.control_flow.cond import (
    case as case,
    cond as cond,
    switch_case as switch_case,
)
from .ops.control_flow.higher_order import (
    foldl as foldl,
    foldr as foldr,
    map_fn as map_fn,
    scan as scan,
)
from .ops.control_flow.tensor_array import (
    TensorArray as TensorArray,
)
from .ops.control_flow.while_loop import (
    while_loop as while_loop,
)
from .ops.conversions import (
    convert_to_tensor_or_indexed_slices as convert_to_tensor_or_indexed_slices,
    convert_to_tensor_or_sparse_tensor as convert_to_tensor_or_sparse_tensor,
    is_tensor as is_tensor,
    make_ndarray as make_ndarray,
    make_tensor_proto as make_tensor_proto,
    register_tensor_conversion_function as register_tensor_conversion_function,
)
from .ops.decompositions import (
    cholesky as cholesky,
    matrix_square_root as matrix_square_root,
    qr as qr,
    self_adjoint_eig as self_adjoint_eig,
    self_adjoint_eigvals as self_adjoint_eigvals,
    svd as svd,
)
from .ops.diagonals import (
    diag as diag,
    diag_part as diag_part,
    matrix_band_part as matrix_band_part,
    matrix_diag as matrix_diag,
    matrix_diag_part as matrix_diag_part,
    matrix_set_diag as matrix_set_diag,
    matrix_transpose as matrix_transpose,
    trace as trace,
)
from .ops.einsum import (
    einsum as einsum,
)
from .ops.elementwise import (
    abs as abs,
    accumulate_n as accumulate_n,
    acos as acos,
    acosh as acosh,
    add as add,
    add_n as add_n,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    cast as cast,
    ceil as ceil,
    cos as cos,
    cosh as cosh,
    div as div,
    div_no_nan as div_no_nan,
    divide as divide,
    erf as erf,
    exp as exp,
    expm1 as expm1,
    floor as floor,
    floor_div as floor_div,
    floordiv as floordiv,
    floormod as floormod,
    is_finite as is_finite,
    is_inf as is_inf,
    is_nan as is_nan,
    log as log,
    log1p as log1p,
    log_sigmoid as log_sigmoid,
    maximum as maximum,
    minimum as minimum,
    mod as mod,
    multiply as multiply,
    negative as negative,
    pow as pow,
    realdiv as realdiv,
    reciprocal as reciprocal,
    rint as rint,
    round as round,
    rsqrt as rsqrt,
    saturate_cast as saturate_cast,
    scalar_mul as scalar_mul,
    sigmoid as sigmoid,
    sign as sign,
    sin as sin,
    sinh as sinh,
    sqrt as sqrt,
    square as square,
    squared_difference as squared_difference,
    subtract as subtract,
    tan as tan,
    tanh as tanh,
    to_bfloat16 as to_bfloat16,
    to_complex64 as to_complex64,
    to_complex128 as to_complex128,
    to_double as to_double,
    to_float as to_float,
    to_int32 as to_int32,
    to_int64 as to_int64,
    truediv as truediv,
    truncatediv as truncatediv,
    truncatemod as truncatemod,
)
from .ops.files import (
    matching_files as matching_files,
    read_file as read_file,
    write_file as write_file,
)
from .ops.linalg import (
    eye as eye,
    matmul as matmul,
    tensordot as tensordot,
)
from .ops.linear_systems import (
    cholesky_solve as cholesky_solve,
    matrix_determinant as matrix_determinant,
    matrix_inverse as matrix_inverse,
    matrix_solve as matrix_solve,
    matrix_solve_ls as matrix_solve_ls,
    matrix_triangular_solve as matrix_triangular_solve,
)
from .ops.morphology import (
    extract_image_patches as extract_image_patches,
    extract_volume_patches as extract_volume_patches,
)
from .ops.norms import (
    norm as norm,
)
from .ops.parsing import (
    decode_csv as decode_csv,
    decode_json_example as decode_json_example,
    parse_example as parse_example,
    parse_single_example as parse_single_example,
    parse_single_sequence_example as parse_single_sequence_example,
    parse_tensor as parse_tensor,
    serialize_tensor as serialize_tensor,
)
from .ops.parsing_config import (
    FixedLenFeature as FixedLenFeature,
    FixedLenSequenceFeature as FixedLenSequenceFeature,
    SparseFeature as SparseFeature,
    VarLenFeature as VarLenFeature,
)
from .ops.random import (
    multinomial as multinomial,
    random_crop as random_crop,
    random_gamma as random_gamma,
    random_normal as random_normal,
    random_poisson as random_poisson,
    random_shuffle as random_shuffle,
    random_uniform as random_uniform,
    set_random_seed as set_random_seed,
    truncated_normal as truncated_normal,
)
from .ops.readers import (
    FixedLengthRecordReader as FixedLengthRecordReader,
    IdentityReader as IdentityReader,
    ReaderBase as ReaderBase,
    TextLineReader as TextLineReader,
    TFRecordReader as TFRecordReader,
    WholeFileReader as WholeFileReader,
)
from .ops.reduction import (
    arg_max as arg_max,
    arg_min as arg_min,
    argmax as argmax,
    argmin as argmin,
    count_nonzero as count_nonzero,
    cumprod as cumprod,
    cumsum as cumsum,
    reduce_all as reduce_all,
    reduce_any as reduce_any,
    reduce_logsumexp as reduce_logsumexp,
    reduce_max as reduce_max,
    reduce_mean as reduce_mean,
    reduce_min as reduce_min,
    reduce_prod as reduce_prod,
    reduce_sum as reduce_sum,
)
from .ops.reordering import (
    batch_gather as batch_gather,
    broadcast_dynamic_shape as broadcast_dynamic_shape,
    broadcast_static_shape as broadcast_static_shape,
    cross as cross,
    dynamic_partition as dynamic_partition,
    dynamic_stitch as dynamic_stitch,
    ensure_shape as ensure_shape,
    guarantee_const as guarantee_const,
    identity_n as identity_n,
    invert_permutation as invert_permutation,
    parallel_stack as parallel_stack,
    repeat as repeat,
    reverse_sequence as reverse_sequence,
    roll as roll,
    sequence_mask as sequence_mask,
    shape_n as shape_n,
)
from .ops.scattering import (
    scatter_nd as scatter_nd,
    tensor_scatter_add as tensor_scatter_add,
    tensor_scatter_max as tensor_scatter_max,
    tensor_scatter_min as tensor_scatter_min,
    tensor_scatter_nd_add as tensor_scatter_nd_add,
    tensor_scatter_nd_max as tensor_scatter_nd_max,
    tensor_scatter_nd_min as tensor_scatter_nd_min,
    tensor_scatter_nd_sub as tensor_scatter_nd_sub,
    tensor_scatter_nd_update as tensor_scatter_nd_update,
    tensor_scatter_sub as tensor_scatter_sub,
    tensor_scatter_update as tensor_scatter_update,
)
from .ops.script import (
    custom_gradient as custom_gradient,
    grad_pass_through as grad_pass_through,
    numpy_function as numpy_function,
    py_func as py_func,
    recompute_grad as recompute_grad,
)
from .ops.sorting import (
    argsort as argsort,
    listdiff as listdiff,
    searchsorted as searchsorted,
    setdiff1d as setdiff1d,
    sort as sort,
    unique_with_counts as unique_with_counts,
    unravel_index as unravel_index,
)
from .ops.sparse_layout import (
    deserialize_many_sparse as deserialize_many_sparse,
    serialize_many_sparse as serialize_many_sparse,
    serialize_sparse as serialize_sparse,
    sparse_concat as sparse_concat,
    sparse_fill_empty_rows as sparse_fill_empty_rows,
    sparse_mask as sparse_mask,
    sparse_merge as sparse_merge,
    sparse_placeholder as sparse_placeholder,
    sparse_reorder as sparse_reorder,
    sparse_reset_shape as sparse_reset_shape,
    sparse_reshape as sparse_reshape,
    sparse_retain as sparse_retain,
    sparse_slice as sparse_slice,
    sparse_split as sparse_split,
    sparse_tensor_to_dense as sparse_tensor_to_dense,
    sparse_to_dense as sparse_to_dense,
    sparse_to_indicator as sparse_to_indicator,
    sparse_transpose as sparse_transpose,
)
from .ops.sparse_math import (
    edit_distance as edit_distance,
    sparse_add as sparse_add,
    sparse_matmul as sparse_matmul,
    sparse_maximum as sparse_maximum,
    sparse_minimum as sparse_minimum,
    sparse_reduce_max as sparse_reduce_max,
    sparse_reduce_max_sparse as sparse_reduce_max_sparse,
    sparse_reduce_sum as sparse_reduce_sum,
    sparse_reduce_sum_sparse as sparse_reduce_sum_sparse,
    sparse_softmax as sparse_softmax,
    sparse_tensor_dense_matmul as sparse_tensor_dense_matmul,
)
from .ops.state import (
    assign as assign,
    assign_add as assign_add,
    assign_sub as assign_sub,
    batch_scatter_update as batch_scatter_update,
    count_up_to as count_up_to,
    is_variable_initialized as is_variable_initialized,
    scatter_add as scatter_add,
    scatter_div as scatter_div,
    scatter_max as scatter_max,
    scatter_min as scatter_min,
    scatter_mul as scatter_mul,
    scatter_nd_add as scatter_nd_add,
    scatter_nd_sub as scatter_nd_sub,
    scatter_nd_update as scatter_nd_update,
    scatter_sub as scatter_sub,
    scatter_update as scatter_update,
)
from .ops.strings import (
    as_string as as_string,
    decode_base64 as decode_base64,
    decode_compressed as decode_compressed,
    decode_raw as decode_raw,
    encode_base64 as encode_base64,
    fingerprint as fingerprint,
    reduce_join as reduce_join,
    regex_replace as regex_replace,
    string_join as string_join,
    string_split as string_split,
    string_strip as string_strip,
    string_to_hash_bucket as string_to_hash_bucket,
    string_to_hash_bucket_fast as string_to_hash_bucket_fast,
    string_to_hash_bucket_strong as string_to_hash_bucket_strong,
    string_to_number as string_to_number,
    substr as substr,
)
from .ops.vocabulary import (
    initialize_all_tables as initialize_all_tables,
    tables_initializer as tables_initializer,
)
from .protos import (
    AttrValue as AttrValue,
    ConfigProto as ConfigProto,
    Event as Event,
    GPUOptions as GPUOptions,
    GraphDef as GraphDef,
    GraphOptions as GraphOptions,
    HistogramProto as HistogramProto,
    LogMessage as LogMessage,
    MetaGraphDef as MetaGraphDef,
    NameAttrList as NameAttrList,
    NodeDef as NodeDef,
    OptimizerOptions as OptimizerOptions,
    RunMetadata as RunMetadata,
    RunOptions as RunOptions,
    SessionLog as SessionLog,
    Summary as Summary,
    SummaryMetadata as SummaryMetadata,
    TensorInfo as TensorInfo,
)
from .queues.queue_base import (
    QueueBase as QueueBase,
)
from .queues.queues import (
    FIFOQueue as FIFOQueue,
    PaddingFIFOQueue as PaddingFIFOQueue,
    PriorityQueue as PriorityQueue,
    RandomShuffleQueue as RandomShuffleQueue,
)
from .session.handles import (
    delete_session_tensor as delete_session_tensor,
    get_session_handle as get_session_handle,
    get_session_tensor as get_session_tensor,
)
from .session.session import (
    InteractiveSession as InteractiveSession,
    Session as Session,
)
from .summary.early import (
    audio_summary as audio_summary,
    histogram_summary as histogram_summary,
    image_summary as image_summary,
    merge_all_summaries as merge_all_summaries,
    merge_summary as merge_summary,
    scalar_summary as scalar_summary,
)
from .variables.creators import (
    VariableAggregation as VariableAggregation,
    VariableSynchronization as VariableSynchronization,
    variable_creator_scope as variable_creator_scope,
)
from .variables.initialization import (
    all_variables as all_variables,
    assert_variables_initialized as assert_variables_initialized,
    global_variables as global_variables,
    global_variables_initializer as global_variables_initializer,
    initialize_all_variables as initialize_all_variables,
    initialize_local_variables as initialize_local_variables,
    initialize_variables as initialize_variables,
    local_variables as local_variables,
    local_variables_initializer as local_variables_initializer,
    model_variables as model_variables,
    moving_average_variables as moving_average_variables,
    report_uninitialized_variables as report_uninitialized_variables,
    trainable_variables as trainable_variables,
    variables_initializer as variables_initializer,
)
from .variables.partitioners import (
    fixed_size_partitioner as fixed_size_partitioner,
    min_max_variable_partitioner as min_max_variable_partitioner,
    variable_axis_size_partitioner as variable_axis_size_partitioner,
)
from .variables.template import (
    make_template as make_template,
)
from .variables.variable import (
    Variable as Variable,
)
from .variables.variable_scope import (
    AUTO_REUSE as AUTO_REUSE,
    VariableScope as VariableScope,
    create_partitioned_variables as create_partitioned_variables,
    get_local_variable as get_local_variable,
    get_variable as get_variable,
    get_variable_scope as get_variable_scope,
    no_regularizer as no_regularizer,
    variable_op_scope as variable_op_scope,
    variable_scope as variable_scope,
)
from .version import (
    COMPILER_VERSION as COMPILER_VERSION,
    CXX11_ABI_FLAG as CXX11_ABI_FLAG,
    CXX_VERSION as CXX_VERSION,
    GIT_VERSION as GIT_VERSION,
    GRAPH_DEF_VERSION as GRAPH_DEF_VERSION,
    GRAPH_DEF_VERSION_MIN_CONSUMER as GRAPH_DEF_VERSION_MIN_CONSUMER,
    GRAPH_DEF_VERSION_MIN_PRODUCER as GRAPH_DEF_VERSION_MIN_PRODUCER,
    MONOLITHIC_BUILD as MONOLITHIC_BUILD,
    VERSION as VERSION,
)

__version__: str
from .eager.py_function import (
    function as function,
    py_function as py_function,
)
from .ops.bitwise import (
    bitcast as bitcast,
)
from .ops.checks import (
    assert_equal as assert_equal,
    assert_greater as assert_greater,
    assert_greater_equal as assert_greater_equal,
    assert_less as assert_less,
    assert_less_equal as assert_less_equal,
    assert_near as assert_near,
    assert_negative as assert_negative,
    assert_non_negative as assert_non_negative,
    assert_non_positive as assert_non_positive,
    assert_none_equal as assert_none_equal,
    assert_positive as assert_positive,
    is_non_decreasing as is_non_decreasing,
    is_strictly_increasing as is_strictly_increasing,
)
from .ops.complex import (
    angle as angle,
    complex as complex,
    conj as conj,
    imag as imag,
    real as real,
)
from .ops.critical_section import (
    CriticalSection as CriticalSection,
)
from .ops.debugging import (
    Assert as Assert,
    Print as Print,
    add_check_numerics_ops as add_check_numerics_ops,
    check_numerics as check_numerics,
    print as print,
    verify_tensor_all_finite as verify_tensor_all_finite,
)
from .ops.fourier import (
    fft as fft,
    fft2d as fft2d,
    fft3d as fft3d,
    ifft as ifft,
    ifft2d as ifft2d,
    ifft3d as ifft3d,
)
from .ops.histogram import (
    bincount as bincount,
    confusion_matrix as confusion_matrix,
    histogram_fixed_width as histogram_fixed_width,
    histogram_fixed_width_bins as histogram_fixed_width_bins,
)
from .ops.leftovers import (
    is_symbolic_tensor as is_symbolic_tensor,
    load_file_system_library as load_file_system_library,
    load_library as load_library,
    load_op_library as load_op_library,
    op_scope as op_scope,
    timestamp as timestamp,
    vectorized_map as vectorized_map,
)
from .ops.quantization import (
    dequantize as dequantize,
    fake_quant_with_min_max_args as fake_quant_with_min_max_args,
    fake_quant_with_min_max_args_gradient as fake_quant_with_min_max_args_gradient,
    fake_quant_with_min_max_vars as fake_quant_with_min_max_vars,
    fake_quant_with_min_max_vars_gradient as fake_quant_with_min_max_vars_gradient,
    fake_quant_with_min_max_vars_per_channel as fake_quant_with_min_max_vars_per_channel,
    fake_quant_with_min_max_vars_per_channel_gradient as fake_quant_with_min_max_vars_per_channel_gradient,  # noqa: E501
    quantize as quantize,
    quantize_v2 as quantize_v2,
)
from .ops.segment import (
    segment_max as segment_max,
    segment_mean as segment_mean,
    segment_min as segment_min,
    segment_prod as segment_prod,
    segment_sum as segment_sum,
    sparse_segment_mean as sparse_segment_mean,
    sparse_segment_sqrt_n as sparse_segment_sqrt_n,
    sparse_segment_sum as sparse_segment_sum,
    unsorted_segment_max as unsorted_segment_max,
    unsorted_segment_mean as unsorted_segment_mean,
    unsorted_segment_min as unsorted_segment_min,
    unsorted_segment_prod as unsorted_segment_prod,
    unsorted_segment_sqrt_n as unsorted_segment_sqrt_n,
    unsorted_segment_sum as unsorted_segment_sum,
)
from .ops.shape_checks import (
    assert_integer as assert_integer,
    assert_proper_iterable as assert_proper_iterable,
    assert_rank as assert_rank,
    assert_rank_at_least as assert_rank_at_least,
    assert_rank_in as assert_rank_in,
    assert_same_float_dtype as assert_same_float_dtype,
    assert_scalar as assert_scalar,
    assert_type as assert_type,
    is_numeric_tensor as is_numeric_tensor,
)
from .ops.special import (
    betainc as betainc,
    digamma as digamma,
    erfc as erfc,
    igamma as igamma,
    igammac as igammac,
    lbeta as lbeta,
    lgamma as lgamma,
    polygamma as polygamma,
    zeta as zeta,
)
from .ops.tensor_spec import (
    IndexedSlicesSpec as IndexedSlicesSpec,
    SparseTensorSpec as SparseTensorSpec,
    TensorSpec as TensorSpec,
    TypeSpec as TypeSpec,
    type_spec_from_value as type_spec_from_value,
)
from .ops.user_ops import (
    register_op as register_op,
)
from .ragged.spec import (
    RaggedTensorSpec as RaggedTensorSpec,
)
from .ragged.tensor import (
    RaggedTensor as RaggedTensor,
)
from .random import (
    get_seed as get_seed,
)
from .variables.module import (
    Module as Module,
)
