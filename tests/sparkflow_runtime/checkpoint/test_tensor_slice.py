import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.checkpoint.tensor_slice import TensorSlice, gather_parts, parse_spec
from sparkflow_runtime.errors import InvalidArgumentError


@pytest.mark.parametrize("text", ["", "-", "0,2:-", "3,1:-:0,5"])
def test_texts_and_messages_are_read_back(text):
    part = TensorSlice.parse(text)
    assert str(part) == text
    assert TensorSlice.from_proto(part.to_proto()) == part


@pytest.mark.parametrize("text", ["x", "1", "1,0", "-1,2", "1,2:", "9" * 30 + ",1"])
def test_what_is_no_slice(text):
    with pytest.raises(InvalidArgumentError, match="start,length"):
        TensorSlice.parse(text)


def test_specifications():
    shape, part = parse_spec("4 5 0,2:-")
    assert shape == (4, 5)
    assert part.shape_in(shape) == (2, 5)
    for wrong in ("0,2:-", "4 0,2:-", "4 5 0,6:-", "a 0,1"):
        with pytest.raises(InvalidArgumentError):
            parse_spec(wrong)


def test_any_part_is_put_together_from_others():
    whole = np.arange(30).reshape(5, 6)
    parts = [TensorSlice.parse(each) for each in ("0,2:-", "2,3:0,3", "2,3:3,3")]
    for text in ("-:-", "1,2:1,4", "4,1:5,1"):
        wanted = TensorSlice.parse(text)
        found = gather_parts(
            "v", whole.shape, dtypes.int64, wanted, parts, lambda part: whole[part.box((5, 6))]
        )
        np.testing.assert_array_equal(found, whole[wanted.box((5, 6))])
