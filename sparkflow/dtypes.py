"""`tf.dtypes`: the element types, under TensorFlow's names."""

from sparkflow.absent import answers
from sparkflow.ops.bitwise import bitcast
from sparkflow.ops.complex import complex
from sparkflow.ops.elementwise import cast, saturate_cast
from sparkflow_runtime.dtypes import (
    QUANTIZED,
    DType,
    as_dtype,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    qint8,
    qint16,
    qint32,
    quint8,
    quint16,
    resource,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
    variant,
)

bool = bool_
double = float64
half = float16
QUANTIZED_DTYPES = QUANTIZED | {dtype.ref for dtype in QUANTIZED}

__getattr__ = answers("dtypes")

__all__ = [
    "QUANTIZED_DTYPES",
    "DType",
    "as_dtype",
    "bfloat16",
    "bitcast",
    "bool",
    "cast",
    "complex",
    "complex64",
    "complex128",
    "double",
    "float16",
    "float32",
    "float64",
    "half",
    "int8",
    "int16",
    "int32",
    "int64",
    "qint8",
    "qint16",
    "qint32",
    "quint8",
    "quint16",
    "resource",
    "saturate_cast",
    "string",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "variant",
]
