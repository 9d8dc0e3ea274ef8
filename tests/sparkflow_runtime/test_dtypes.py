import copy
import pickle

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType, as_dtype

EVERY = [value for value in vars(dtypes).values() if isinstance(value, DType)]


@pytest.mark.parametrize("dtype", EVERY, ids=lambda dtype: dtype.name)
def test_every_spelling_finds_the_one_instance(dtype: DType) -> None:
    assert as_dtype(dtype) is dtype
    assert as_dtype(dtype.name) is dtype
    assert as_dtype(dtype.number) is dtype
    assert dtype.ref.base is dtype
    assert dtype.ref.is_ref
    assert not dtype.is_ref
    assert dtype.ref.number == dtype.number + 100
    assert as_dtype(dtype.name + "_ref") is dtype.ref
    assert dtype.is_compatible_with(dtype.ref)
    assert pickle.loads(pickle.dumps(dtype)) is dtype  # noqa: S301
    assert copy.deepcopy(dtype) is dtype


@pytest.mark.parametrize("dtype", sorted(dtypes.PLAIN, key=int), ids=lambda dtype: dtype.name)
def test_numpy_and_back(dtype: DType) -> None:
    array = np.zeros(2, dtype.as_numpy_dtype)
    assert as_dtype(array.dtype) is dtype
    assert as_dtype(array.dtype.newbyteorder()) is dtype
    assert dtype.size == array.itemsize


def test_numbers_are_tensorflow_s() -> None:
    numbers = {dtype.name: dtype.number for dtype in EVERY}
    assert numbers["float32"] == 1
    assert numbers["string"] == 7
    assert numbers["bool"] == 10
    assert numbers["float16"] == 19
    assert numbers["resource"] == 20
    assert numbers["uint64"] == 23
    assert len(set(numbers.values())) == len(numbers) == 23


def test_python_types_and_aliases() -> None:
    assert [as_dtype(kind) for kind in (float, int, bool, complex, str, bytes)] == [
        dtypes.float32,
        dtypes.int32,
        dtypes.bool_,
        dtypes.complex128,
        dtypes.string,
        dtypes.string,
    ]
    assert as_dtype("double") is dtypes.float64
    assert as_dtype(np.array(["a"]).dtype) is dtypes.string
    assert dtypes.float32 == "float32"
    assert dtypes.float32 != dtypes.float32.ref
    assert dtypes.float32 not in (None, "nonsense", object())


def test_limits() -> None:
    assert (dtypes.int8.min, dtypes.int8.max) == (-128, 127)
    assert dtypes.float32.max == np.finfo(np.float32).max
    assert (dtypes.bool_.min, dtypes.bool_.max) == (False, True)


@pytest.mark.parametrize("value", ["float31", 24, -1, 200, None, True, [1], np.datetime64("2020")])
def test_what_is_no_dtype_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="not an element type"):
        as_dtype(value)


def test_bfloat16_and_quantized_types_have_arrays() -> None:
    for dtype in (dtypes.bfloat16, *dtypes.QUANTIZED):
        assert as_dtype(np.zeros(2, dtype.as_numpy_dtype).dtype) is dtype
    assert float(dtypes.bfloat16.max) > 3e38
    assert (dtypes.quint8.min, dtypes.quint8.max, dtypes.qint32.size) == (0, 255, 4)
    assert dtypes.qint8.is_quantized
    assert not dtypes.qint8.is_integer


def test_names_are_in_the_order_of_numbers() -> None:
    assert dtypes.names({dtypes.int64, dtypes.float32}) == "float32, int64"
