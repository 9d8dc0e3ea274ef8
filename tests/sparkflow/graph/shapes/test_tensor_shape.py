import pytest

from sparkflow import Dimension, TensorShape


def test_messages_and_back():
    for dims in ([2, None], [], None):
        shape = TensorShape(dims)
        assert TensorShape(shape.as_proto()) == shape


def test_a_known_sequence_of_sizes_iterates_as_dimensions():
    assert [d.value for d in TensorShape([None, 3])] == [None, 3]
    assert len(TensorShape([None, 3])) == 2
    with pytest.raises(ValueError, match="unknown rank"):
        list(TensorShape(None))


def test_rank_checks():
    TensorShape([2, 3]).assert_has_rank(2)
    TensorShape(None).assert_same_rank([1])
    with pytest.raises(ValueError, match=r"\(2, 3\) must have rank 1"):
        TensorShape([2, 3]).assert_has_rank(1)
    with pytest.raises(ValueError, match="at most 1"):
        TensorShape([2, 3]).with_rank_at_most(1)
    with pytest.raises(ValueError, match="same rank"):
        TensorShape([2, 3]).assert_same_rank([2])


def test_slices_of_unknown_rank():
    assert TensorShape(None)[1:3].as_list() == [None, None]
    assert TensorShape(None)[1:].ndims is None
    assert TensorShape(None)[0].value is None


def test_joining():
    assert TensorShape([1]) + TensorShape([2]) == [1, 2]
    assert TensorShape([1]).concatenate(None) == TensorShape(None)


def test_dimensions_calculate_with_the_unknown():
    assert (Dimension(7) % 4).value == 3
    assert (9 // Dimension(2)).value == 4
    assert (Dimension(None) + 1).value is None
    assert (Dimension(2) != Dimension(3)) is True
    assert (Dimension(None) != 3) is None
    assert (Dimension(2) >= 2) is True
    assert [10, 20, 30][Dimension(1)] == 20
    with pytest.raises(TypeError, match="integer or None"):
        Dimension("a")
    with pytest.raises(TypeError):
        int(Dimension(None))
