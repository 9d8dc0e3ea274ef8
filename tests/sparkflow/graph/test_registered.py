import pytest

from sparkflow.graph.registered import ByName


def test_functions_are_found_by_their_names():
    by_name = ByName()

    @by_name.add
    def twice(x):
        return 2 * x

    assert by_name.find("twice") is twice
    assert by_name.add(twice) is twice
    with pytest.raises(KeyError):
        by_name.find("thrice")


def test_two_of_one_name_are_refused():
    by_name = ByName()
    by_name.add(len)

    class Other:
        pass

    Other.__name__ = "len"
    with pytest.raises(ValueError, match="Two are called 'len'"):
        by_name.add(Other)
