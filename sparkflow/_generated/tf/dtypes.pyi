"""`tf.dtypes`: the element types, under TensorFlow's names.

Made by `scripts/generate_api.py`.
"""

from sparkflow._generated.ops.elementwise.bitwise import bitcast
from sparkflow.ops.elementwise.complex import complex
from sparkflow.ops.elementwise.elementwise import cast, saturate_cast
from sparkflow.ops.nn.quantization import QUANTIZED_DTYPES
from sparkflow_runtime.dtypes import (
    DType,
    as_dtype,
    bfloat16,
    bool_ as bool,
    complex128,
    complex64,
    float16,
    float16 as half,
    float32,
    float64 as double,
    float64,
    int16,
    int32,
    int64,
    int8,
    qint16,
    qint32,
    qint8,
    quint16,
    quint8,
    resource,
    string,
    uint16,
    uint32,
    uint64,
    uint8,
    variant,
)

__all__ = [
    "DType",
    "QUANTIZED_DTYPES",
    "as_dtype",
    "bfloat16",
    "bitcast",
    "bool",
    "cast",
    "complex",
    "complex128",
    "complex64",
    "double",
    "float16",
    "float32",
    "float64",
    "half",
    "int16",
    "int32",
    "int64",
    "int8",
    "qint16",
    "qint32",
    "qint8",
    "quint16",
    "quint8",
    "resource",
    "saturate_cast",
    "string",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "variant",
]
