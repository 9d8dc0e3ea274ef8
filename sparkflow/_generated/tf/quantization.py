"""`tf.quantization`: numbers as integers of few bits.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow.ops.nn.quantization": (
            "dequantize fake_quant_with_min_max_args fake_quant_with_min_max_args_gradient "
            "fake_quant_with_min_max_vars fake_quant_with_min_max_vars_gradient "
            "fake_quant_with_min_max_vars_per_channel "
            "fake_quant_with_min_max_vars_per_channel_gradient quantize "
            "quantize_and_dequantize quantize_and_dequantize_v2"
        ),
    },
)
