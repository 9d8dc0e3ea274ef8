"""Rows for strings: `strings`, `string_*`, `base64`, `csv`, `parsing*` and `wav`."""

import io
import struct
import wave

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import DataLossError
from sparkflow_runtime.protos.example_pb2 import Example, SequenceExample
from sparkflow_runtime.tensor_proto import export_tensor
from support.op_cases import FailureCase, OpCase, WrongShapeCase


def s(*texts):
    return np.array([each.encode() for each in texts], object)


def scalar(text):
    result = np.empty((), object)
    result[()] = text if isinstance(text, bytes) else text.encode()
    return result


def i64(*numbers):
    return np.array(numbers, np.int64)


WORDS = s("ab", "", "cde")
GRID = np.array([[b"a", b"b"], [b"c", b"d"]], object)
NONE = np.empty(0, object)

EXAMPLE = Example()
EXAMPLE.features.feature["a"].int64_list.value.extend([1, 2])
EXAMPLE.features.feature["f"].float_list.value.extend([0.5])
ONE = EXAMPLE.SerializeToString()
SEQUENCE = SequenceExample()
SEQUENCE.context.feature["c"].int64_list.value.append(7)
for number in range(3):
    SEQUENCE.feature_lists.feature_list["q"].feature.add().int64_list.value.append(number)
WORDS_EXAMPLE = Example()
WORDS_EXAMPLE.features.feature["x"].bytes_list.value.append(b"a")
WORDS_EXAMPLE.features.feature["y"].bytes_list.value.append(b"b")
TWO_WORDS = WORDS_EXAMPLE.SerializeToString()  # also a SequenceExample that has only a context
NO_LISTS = SequenceExample(context=SEQUENCE.context)


def wav(samples):
    target = io.BytesIO()
    with wave.open(target, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(struct.pack(f"<{len(samples)}h", *samples))
    return target.getvalue()


PARSE = {
    "sparse_types": [dtypes.float32],
    "Tdense": [dtypes.int64],
    "dense_shapes": [(2,)],
}
BATCH_ROW = [
    np.array([ONE], object),
    NONE,
    [scalar("f")],
    [scalar("a")],
    [i64()],
]
SPARSE_RESULT = (i64(0, 0).reshape(1, 2), np.array([0.5], np.float32), i64(1, 1))
DECODED = {"input_encoding": "UTF-8"}

CASES = [
    OpCase("StringJoin", [[WORDS, WORDS]], {"separator": "-"}, s("ab-ab", "-", "cde-cde")),
    OpCase("StringJoin", [[scalar("x"), WORDS]], {}, s("xab", "x", "xcde")),
    OpCase(
        "StringSplit",
        [s("a b", "", " c"), scalar(" ")],
        {},
        (np.array([[0, 0], [0, 1], [2, 0]]), s("a", "b", "c"), i64(3, 2)),
        dynamic_shape=True,
    ),
    OpCase(
        "StringSplit",
        [s("a,b;"), scalar(",;")],
        {"skip_empty": False},
        (np.array([[0, 0], [0, 1], [0, 2]]), s("a", "b", ""), i64(1, 3)),
        dynamic_shape=True,
    ),
    OpCase(
        "StringSplit",
        [s("", "a", ","), scalar(",")],
        {"skip_empty": False},
        (np.array([[1, 0], [2, 0], [2, 1]]), s("a", "", ""), i64(3, 2)),
        dynamic_shape=True,
    ),
    OpCase("Add", [scalar("a"), scalar("b\0")], {}, np.array(b"ab\0", object)),
    OpCase("Add", [s("a", ""), scalar("b\0")], {}, s("ab\0", "b\0")),
    OpCase(
        "StringSplitV2",
        [s("a  b"), scalar("")],
        {},
        (np.array([[0, 0], [0, 1]]), s("a", "b"), i64(1, 2)),
        dynamic_shape=True,
    ),
    OpCase("Substr", [WORDS, i64(0, 0, -2), i64(1, 5, 1)], {}, s("a", "", "d")),
    OpCase("Substr", [s("äöü"), i64(1), i64(1)], {"unit": "UTF8_CHAR"}, s("ö")),
    OpCase("StringLength", [WORDS], {}, np.array([2, 0, 3], np.int32)),
    OpCase("StringLength", [s("ä")], {"unit": "UTF8_CHAR"}, np.array([1], np.int32)),
    OpCase("StringStrip", [s(" a\t", "")], {}, s("a", "")),
    OpCase("StringLower", [s("AÄ")], {}, s("aÄ")),
    OpCase("StringUpper", [s("aä")], {"encoding": "utf-8"}, s("AÄ")),
    OpCase("ReduceJoin", [GRID, np.array([0], np.int32)], {}, s("ac", "bd")),
    OpCase("ReduceJoin", [GRID, np.array([0, 1], np.int32)], {}, scalar("acbd")),
    OpCase(
        "ReduceJoin",
        [GRID, np.array([-1], np.int32)],
        {"keep_dims": True, "separator": ","},
        np.array([[b"a,b"], [b"c,d"]], object),
    ),
    OpCase("UnsortedSegmentJoin", [WORDS, i64(1, 0, 1), np.int32(3)], {}, s("", "abcde", "")),
    OpCase(
        "StringNGrams",
        [s("a", "b", "c"), i64(0, 2, 3)],
        {
            "separator": "-",
            "ngram_widths": [2],
            "left_pad": "<",
            "right_pad": ">",
            "pad_width": 0,
            "preserve_short_sequences": True,
        },
        (s("a-b", "c"), i64(0, 1, 2)),
        dynamic_shape=True,
    ),
    # The numbers are those of TensorFlow 2.21.
    OpCase("StringToHashBucket", [s("a", "hello")], {"num_buckets": 1000}, i64(868, 938)),
    OpCase(
        "StringToHashBucketFast",
        [s("a", "hello", "x" * 20, "y" * 40, "x" * 100, "")],
        {"num_buckets": 1000000},
        i64(363939, 800296, 857348, 495006, 50719, 397263),
    ),
    OpCase(
        "StringToHashBucketStrong",
        [s("a", "hello")],
        {"num_buckets": 1000, "key": [123, 456]},
        i64(228, 579),
    ),
    OpCase(
        "Fingerprint",
        [s("a"), scalar("farmhash64")],
        {},
        np.array([[227, 117, 223, 182, 101, 66, 69, 179]], np.uint8),
    ),
    OpCase("RegexReplace", [s("abcabc"), scalar("(a)(b)"), scalar(r"\2\1-")], {}, s("ba-cba-c")),
    OpCase("StaticRegexReplace", [s("abc")], {"pattern": "x*", "rewrite": "-"}, s("-a-b-c-")),
    OpCase("RegexFullMatch", [s("abc", "ab"), scalar("a.c")], {}, np.array([True, False])),
    OpCase("StaticRegexFullMatch", [s("abc", "")], {"pattern": "a.c"}, np.array([True, False])),
    OpCase("StringToNumber", [s(" 1.5", "-3e2", "inf")], {}, np.float32([1.5, -300, np.inf])),
    OpCase("StringToNumber", [s("-7")], {"out_type": dtypes.int64}, i64(-7)),
    OpCase("AsString", [i64(1, -2)], {}, s("1", "-2")),
    OpCase("AsString", [np.float32([1.5])], {"precision": 2, "width": 6}, s("  1.50")),
    OpCase("AsString", [np.array([True])], {}, s("true")),
    OpCase(
        "DecodeRaw",
        [s("abcd")],
        {"out_type": dtypes.int16},
        np.array([[25185, 25699]], np.int16),
        dynamic_shape=True,
    ),
    OpCase("EncodeBase64", [s("hello??>")], {}, s("aGVsbG8_Pz4")),
    OpCase("EncodeBase64", [s("hello")], {"pad": True}, s("aGVsbG8=")),
    OpCase("DecodeBase64", [s("aGVsbG8_Pz4", "aGVsbG8=")], {}, s("hello??>", "hello")),
    OpCase("DecodeCompressed", [s("plain")], {}, s("plain")),
    OpCase(
        "UnicodeTranscode",
        [s("hä")],
        {**DECODED, "output_encoding": "UTF-16-BE"},
        np.array([b"\0h\0\xe4"], object),
    ),
    OpCase(
        "UnicodeEncode",
        [np.array([72, 228, 1], np.int32), i64(0, 2, 3)],
        {"output_encoding": "UTF-8"},
        s("Hä", "\x01"),
    ),
    OpCase(
        "UnicodeDecode",
        [np.array([b"h\xc3\xa4", b"\xff"], object)],
        DECODED,
        (i64(0, 2, 3), np.array([104, 228, 65533], np.int32)),
        dynamic_shape=True,
    ),
    OpCase(
        "UnicodeDecodeWithOffsets",
        [np.array([b"\xc3\xa4h"], object)],
        DECODED,
        (i64(0, 2), np.array([228, 104], np.int32), i64(0, 2)),
        dynamic_shape=True,
    ),
    OpCase(
        "DecodeCSV",
        [s('1,"a ""q"", b"', "2,"), [np.int32([0]), s("x")]],
        {},
        (np.int32([1, 2]), s('a "q", b', "x")),
    ),
    OpCase(
        "ParseExample",
        BATCH_ROW,
        PARSE,
        (*SPARSE_RESULT, i64(1, 2).reshape(1, 2)),
        dynamic_shape=True,
    ),
    OpCase(
        "ParseSingleExample",
        [scalar(ONE), [i64()]],
        {**PARSE, "num_sparse": 1, "sparse_keys": ["f"], "dense_keys": ["a"]},
        (i64(0).reshape(1, 1), np.array([0.5], np.float32), i64(1), i64(1, 2)),
        dynamic_shape=True,
    ),
    OpCase(
        "ParseSingleExample",
        [scalar(TWO_WORDS), [scalar("default"), s()]],
        {
            "num_sparse": 1,
            "sparse_keys": ["x"],
            "sparse_types": [dtypes.string],
            "dense_keys": ["none", "y"],
            "dense_shapes": [(), ()],
        },
        (i64(0).reshape(1, 1), s("a"), i64(1), scalar("default"), scalar("b")),
        dynamic_shape=True,
    ),
    OpCase(
        "ParseSingleSequenceExample",
        [scalar(TWO_WORDS), NONE, [], [scalar("y")], [], [], [s()], scalar("")],
        {"context_dense_shapes": [()]},
        (scalar("b"),),
        dynamic_shape=True,
    ),
    OpCase(
        "ParseSingleSequenceExample",
        [
            scalar(SEQUENCE.SerializeToString()),
            NONE,
            [],
            [scalar("c")],
            [],
            [scalar("q")],
            [i64()],
            scalar(""),
        ],
        {
            "context_dense_shapes": [()],
            "feature_list_dense_types": [dtypes.int64],
            "feature_list_dense_shapes": [()],
        },
        (np.int64(7), i64(0, 1, 2)),
        dynamic_shape=True,
    ),
    OpCase(
        "ParseSequenceExample",
        [
            np.array([SEQUENCE.SerializeToString(), NO_LISTS.SerializeToString()], object),
            NONE,
            [i64()],
        ],
        {
            "feature_list_dense_missing_assumed_empty": ["q"],
            "context_sparse_keys": [],
            "context_dense_keys": ["c"],
            "feature_list_sparse_keys": [],
            "feature_list_dense_keys": ["q"],
            "Nfeature_list_dense": 1,
            "context_dense_shapes": [()],
            "feature_list_dense_types": [dtypes.int64],
            "feature_list_dense_shapes": [()],
        },
        (i64(7, 7), np.array([[0, 1, 2], [0, 0, 0]]), i64(3, 0)),
        dynamic_shape=True,
    ),
    OpCase(
        "ParseTensor",
        [scalar(export_tensor(np.float32([1, 2])).SerializeToString())],
        {"out_type": dtypes.float32},
        np.float32([1, 2]),
        dynamic_shape=True,
    ),
    OpCase(
        "SerializeTensor",
        [np.float32([1, 2])],
        {},
        scalar(export_tensor(np.float32([1, 2])).SerializeToString()),
    ),
    OpCase(
        "DecodeJSONExample",
        [s('{"features": {"feature": {"a": {"int64List": {"value": ["4"]}}}}}')],
        {},
        np.array([b"\n\x0c\n\n\n\x01a\x12\x05\x1a\x03\n\x01\x04"], object),
    ),
    OpCase(
        "DecodeWav",
        [scalar(wav([16384, -16384]))],
        {"desired_channels": 2, "desired_samples": 3},
        (np.float32([[0.5, 0.5], [-0.5, -0.5], [0, 0]]), np.int32(8000)),
    ),
    OpCase(
        "EncodeWav",
        [np.float32([[0.5], [-2]]), np.int32(8000)],
        {},
        scalar(wav([16384, -32768])),
    ),
]

WRONG_SHAPES = [
    WrongShapeCase(
        "StringJoin",
        [(2,), (3,)],
        {"N": 2},
        "Shapes (2,) and (3,) are not compatible",
    ),
]

FAILURES = [
    FailureCase(
        "StringToNumber",
        [s("x")],
        message="StringToNumberOp could not correctly convert string: x",
    ),
    FailureCase(
        "Substr",
        [s("ab"), i64(3), i64(1)],
        message="pos 3 out of range for string b'ab' at index 0",
    ),
    FailureCase(
        "RegexFullMatch",
        [s("a"), scalar("(")],
        message="Invalid pattern: (, error: missing ): (",
    ),
    FailureCase(
        "DecodeRaw",
        [s("abc")],
        {"out_type": dtypes.int16},
        "Input to DecodeRaw has length 3 that is not a multiple of 2, the size of int16",
    ),
    FailureCase(
        "DecodeCSV",
        [s("1,2"), [np.int32([0])]],
        message="Expect 1 fields but have 2 in record 0",
    ),
    FailureCase("DecodeBase64", [s("a+b/")], message="Invalid character found in base64."),
    FailureCase(
        "DecodeCompressed",
        [s("junk")],
        {"compression_type": "ZLIB"},
        "The compressed data are damaged: Error -3 while decompressing data: "
        "incorrect header check",
        DataLossError,
    ),
    FailureCase(
        "ParseExample",
        [*BATCH_ROW[:3], [scalar("gone")], [i64()]],
        PARSE,
        "Name: <unknown>, Feature: gone (data type: int64) is required but could not be found.",
    ),
]
