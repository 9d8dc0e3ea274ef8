"""`tf.dtypes`: the element types, under TensorFlow's names.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow._generated.ops.elementwise.bitwise": "bitcast",
        "sparkflow.ops.elementwise.complex": "complex",
        "sparkflow.ops.elementwise.elementwise": "cast saturate_cast",
        "sparkflow.ops.nn.quantization": "QUANTIZED_DTYPES",
        "sparkflow_runtime.dtypes": (
            "DType as_dtype bfloat16 bool_:bool complex128 complex64 float16 float16:half "
            "float32 float64:double float64 int16 int32 int64 int8 qint16 qint32 qint8 "
            "quint16 quint8 resource string uint16 uint32 uint64 uint8 variant"
        ),
    },
)
