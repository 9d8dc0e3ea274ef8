import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.protos.tensor_pb2 import TensorProto
from sparkflow_runtime.protos.tensor_shape_pb2 import TensorShapeProto
from sparkflow_runtime.shapes import Shape
from sparkflow_runtime.tensor_proto import (
    export_constant,
    export_shape,
    export_tensor,
    import_shape,
    import_tensor,
)


@pytest.mark.parametrize("dtype", sorted(dtypes.PLAIN, key=int), ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 5)])
def test_arrays_survive_the_trip(dtype: DType, shape: tuple[int, ...]) -> None:
    array = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype.as_numpy_dtype)
    for given in (array, array.T):  # contiguous and not
        back = import_tensor(TensorProto.FromString(export_tensor(given).SerializeToString()))
        np.testing.assert_array_equal(back, given, strict=True)


def test_texts_survive_the_trip() -> None:
    back = import_tensor(export_tensor(np.array([["a", "ü"], [b"\xff", ""]], object)))
    assert back.tolist() == [[b"a", "ü".encode()], [b"\xff", b""]]
    assert import_tensor(export_tensor("text"))[()] == b"text"


@pytest.mark.parametrize("item", [None, 10**12, 1.5, ["a"]])
def test_what_is_no_text_is_refused(item: object) -> None:
    array = np.empty(1, object)
    array[0] = item
    with pytest.raises(InvalidArgumentError, match="only str and bytes are texts"):
        export_tensor(array)


@pytest.mark.parametrize("shape", [None, (), (2, None), (0,)])
def test_shapes_survive_the_trip(shape: Shape) -> None:
    assert import_shape(export_shape(shape)) == shape


def _tensor(dtype: int, sizes: tuple[int, ...] = (), **fields: object) -> TensorProto:
    dims = [TensorShapeProto.Dim(size=size) for size in sizes]
    shape = TensorShapeProto(dim=dims)
    return TensorProto(dtype=dtype, tensor_shape=shape, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("proto", "expected"),
    [
        (_tensor(1, (2, 2), float_val=[1.5]), np.full((2, 2), 1.5, np.float32)),
        (_tensor(3, (4,), int_val=[1, 2]), np.array([1, 2, 2, 2], np.int32)),
        (_tensor(9, (2,)), np.zeros(2, np.int64)),
        (_tensor(4, (1,), int_val=[200]), np.array([200], np.uint8)),
        (_tensor(19, (1,), half_val=[0x3C00]), np.ones(1, np.float16)),
        (_tensor(8, (1,), scomplex_val=[1, 2]), np.array([1 + 2j], np.complex64)),
        (_tensor(10, (1,), bool_val=[True]), np.array([True])),
        (_tensor(23, (1,), uint64_val=[2**64 - 1]), np.array([2**64 - 1], np.uint64)),
        (_tensor(7, (2,), string_val=[b"x"]), np.array([b"x", b"x"], object)),
        (
            _tensor(7, (3,), tensor_content=b"\x01\x00\x80\x01" + b"a" + b"b" * 128),
            np.array([b"a", b"", b"b" * 128], object),
        ),
    ],
)
def test_values_in_fields(proto: TensorProto, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(import_tensor(proto), expected, strict=True)


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (_tensor(99), "unknown dtype 99"),
        (_tensor(101), "dtype float32_ref cannot be read"),
        (_tensor(20), "dtype resource cannot be read"),
        (_tensor(21), "dtype variant cannot be read"),
        (_tensor(1, (2,), tensor_content=b"123"), "needs 8 bytes, the message carries 3"),
        (_tensor(1, (-1,)), "must have a complete shape"),
        (_tensor(1, (-2,)), "negative sizes"),
        (_tensor(1, (1,) * 33), "rank 33"),
        (_tensor(1, (1 << 40,)), "is larger than"),
        (_tensor(1, (1 << 30,), float_val=[1]), "fewer values than it holds and is larger"),
        (_tensor(7, (1 << 30,), string_val=[b""]), "fewer values than it holds and is larger"),
        (_tensor(1, (0, 1 << 62, 1 << 62)), "cannot be made"),
        (_tensor(3, (1,), int_val=[1, 2]), "holds 1 values, not 2"),
        (_tensor(8, (1,), scomplex_val=[1]), "cannot be read"),
        (_tensor(7, (3,), string_val=[b"a", b"b"]), "holds 3 values, not 2"),
        (_tensor(7, (1,)), "holds 1 values, not 0"),
        (_tensor(7, (2,), tensor_content=b"\x01"), "lacks the lengths of its 2"),
        (_tensor(7, (1,), tensor_content=b"\xff" * 9), "lacks the lengths of its 1"),
        (_tensor(7, (1,), tensor_content=b"\x05abc"), "announces 5 bytes, the message carries 3"),
    ],
)
def test_malformed_tensors_are_refused(proto: TensorProto, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        import_tensor(proto)


def test_arrays_that_arrive_cannot_be_changed() -> None:
    array = import_tensor(export_tensor(np.arange(3.0)))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_single_numbers_are_legible() -> None:
    assert list(export_constant(np.array([[2.5]], np.float32)).float_val) == [2.5]
    assert list(export_constant(np.int64(-3)).int64_val) == [-3]
    assert not export_constant(np.zeros([0], np.int64)).int64_val
