"""`tf.nn`: what networks are made of.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow._generated.ops.convolution.convolution": "conv3d_backprop_filter conv3d_backprop_filter:conv3d_backprop_filter_v2",
        "sparkflow._generated.ops.elementwise.elementwise": "sigmoid tanh",
        "sparkflow._generated.ops.nn.activation": "elu l2_loss leaky_relu relu relu6 selu softplus softsign",
        "sparkflow._generated.ops.nn.normalization": "local_response_normalization local_response_normalization:lrn",
        "sparkflow._generated.ops.shape.blocks": "depth_to_space space_to_depth",
        "sparkflow.embedding.candidate_sampling": (
            "all_candidate_sampler compute_accidental_hits fixed_unigram_candidate_sampler "
            "learned_unigram_candidate_sampler log_uniform_candidate_sampler nce_loss "
            "sampled_softmax_loss uniform_candidate_sampler"
        ),
        "sparkflow.embedding.lookup": "embedding_lookup",
        "sparkflow.embedding.sparse_lookup": "embedding_lookup_sparse safe_embedding_lookup_sparse",
        "sparkflow.ops.convolution.convolution": (
            "atrous_conv2d conv1d conv2d conv2d_backprop_filter conv2d_backprop_input conv3d "
            "convolution depthwise_conv2d depthwise_conv2d_native "
            "depthwise_conv2d_native_backprop_filter:depthwise_conv2d_backprop_filter "
            "depthwise_conv2d_native_backprop_filter "
            "depthwise_conv2d_native_backprop_input:depthwise_conv2d_backprop_input "
            "depthwise_conv2d_native_backprop_input separable_conv2d"
        ),
        "sparkflow.ops.convolution.transposed_convolution": (
            "atrous_conv2d_transpose conv1d_transpose conv2d_transpose conv3d_transpose "
            "conv_transpose"
        ),
        "sparkflow.ops.indexing.sorting": "approx_max_k approx_min_k",
        "sparkflow.ops.nn.activation": (
            "bias_add crelu dropout in_top_k log_softmax relu_layer softmax swish:silu swish "
            "top_k xw_plus_b zero_fraction"
        ),
        "sparkflow.ops.nn.cross_entropy": (
            "log_poisson_loss sigmoid_cross_entropy_with_logits "
            "softmax_cross_entropy_with_logits softmax_cross_entropy_with_logits_v2 "
            "sparse_softmax_cross_entropy_with_logits weighted_cross_entropy_with_logits"
        ),
        "sparkflow.ops.nn.ctc": (
            "collapse_repeated ctc_beam_search_decoder ctc_beam_search_decoder_v2 "
            "ctc_greedy_decoder ctc_loss ctc_loss_v2 ctc_unique_labels"
        ),
        "sparkflow.ops.nn.loss_scaling": "compute_average_loss scale_regularization_loss",
        "sparkflow.ops.nn.morphology": "dilation2d erosion2d",
        "sparkflow.ops.nn.normalization": (
            "batch_norm_with_global_normalization batch_normalization fused_batch_norm "
            "l2_normalize moments normalize_moments sufficient_statistics weighted_moments"
        ),
        "sparkflow.ops.pooling.fractional_pooling": "fractional_avg_pool fractional_max_pool",
        "sparkflow.ops.pooling.pooling": (
            "avg_pool avg_pool:avg_pool2d avg_pool1d avg_pool3d avg_pool_v2 max_pool "
            "max_pool1d max_pool2d max_pool3d max_pool_v2 max_pool_with_argmax pool "
            "with_space_to_batch"
        ),
        "sparkflow.ops.shape.blocks": "space_to_batch",
        "sparkflow.rnn.looped": "bidirectional_dynamic_rnn dynamic_rnn raw_rnn",
        "sparkflow.rnn.unrolled": "static_bidirectional_rnn static_rnn static_state_saving_rnn",
    },
    "rnn_cell",
)
