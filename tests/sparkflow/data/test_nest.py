from collections import OrderedDict, namedtuple

import pytest
from hypothesis import given, strategies as st

from sparkflow.data import nest

Pair = namedtuple("Pair", ["one", "other"])
LEAVES = st.integers() | st.lists(st.integers())
STRUCTURES = st.recursive(
    LEAVES,
    lambda inner: (
        st.tuples(inner, inner)
        | st.builds(Pair, inner, inner)
        | st.dictionaries(st.text(max_size=2), inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)


@given(STRUCTURES)
def test_packing_undoes_flattening(structure):
    packed = nest.pack_as(structure, nest.flatten(structure))
    assert packed == structure
    assert type(packed) is type(structure)


def test_lists_are_values_and_dictionaries_go_by_their_keys():
    structure = OrderedDict(b=(1, [2, 3]), a=Pair(4, 5))
    assert nest.flatten(structure) == [4, 5, 1, [2, 3]]
    packed = nest.pack_as(structure, "wxyz")
    assert packed == OrderedDict(b=("y", "z"), a=Pair("w", "x"))
    assert type(packed) is OrderedDict


def test_functions_of_leaves():
    assert nest.mapped(lambda leaf: leaf + 1, {"a": (1, 2), "b": 3}) == {"a": (2, 3), "b": 4}


def test_parts_where_the_other_has_leaves():
    assert nest.flatten_up_to((0, {"k": 0}), ((1, 2), {"k": [3]})) == [(1, 2), [3]]
    assert nest.flatten_up_to(0, (1, 2)) == [(1, 2)]
    assert nest.flatten_up_to((0, 0), [1, 2]) == [1, 2]


@pytest.mark.parametrize(
    ("shallow", "value", "kind", "text"),
    [
        ((0, 0), {"a": 1, "b": 2}, TypeError, "same sequence type"),
        ({"a": 0}, 3, TypeError, "same sequence type"),
        ((0, 0), (1, 2, 3), ValueError, "same sequence length"),
        ({"a": 0}, {"b": 1}, ValueError, "same keys"),
    ],
)
def test_other_structures_are_refused(shallow, value, kind, text):
    with pytest.raises(kind, match=text):
        nest.flatten_up_to(shallow, value)
    with pytest.raises((TypeError, ValueError)):
        nest.require_same(shallow, value)


@given(STRUCTURES)
def test_a_structure_is_the_same_as_itself(structure):
    nest.require_same(structure, structure)
    with pytest.raises((TypeError, ValueError)):
        nest.require_same(structure, (structure, structure))
