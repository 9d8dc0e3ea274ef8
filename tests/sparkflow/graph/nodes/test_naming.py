"""Names of nodes and scopes: TensorFlow's rules."""

import threading

import pytest

from sparkflow.graph.nodes.naming import Names, check_op_name, is_node_name


def test_taken_names_are_numbered() -> None:
    names = Names()
    assert [names.unique("add") for _ in range(3)] == ["add", "add_1", "add_2"]


def test_a_number_that_is_taken_is_passed_over() -> None:
    names = Names()
    names.take("add_1")
    assert [names.unique("add") for _ in range(3)] == ["add", "add_2", "add_3"]
    assert names.unique("add_1") == "add_1_1"


def test_names_that_differ_in_case_are_the_same() -> None:
    names = Names()
    assert [names.unique(each) for each in ("Add", "add", "ADD")] == ["Add", "add_1", "ADD_2"]


def test_a_name_may_be_looked_at_without_taking_it() -> None:
    names = Names()
    assert names.unique("add", mark_as_used=False) == "add"
    assert names.unique("add") == "add"
    assert names.unique("add", mark_as_used=False) == "add_1"
    assert names.unique("add") == "add_1"


def test_scopes_nest_and_come_back() -> None:
    names = Names()
    with names.entered("outer") as outer:
        assert (outer, names.scope) == ("outer/", "outer")
        with names.entered("inner") as inner:
            assert inner == "outer/inner/"
            assert names.unique("add") == "outer/inner/add"
        with names.entered("inner") as again:
            assert again == "outer/inner_1/"
        with names.entered(None) as root:
            assert (root, names.scope) == ("", "")
            assert names.unique("outer") == "outer_1"
        assert names.scope == "outer"
    assert names.scope == ""
    with names.entered(outer) as same:
        assert same == "outer/"
        assert names.unique("add") == "outer/add"


def test_a_scope_is_left_after_an_error() -> None:
    names = Names()
    with pytest.raises(KeyError), names.entered("outer"):
        raise KeyError
    assert names.scope == ""


@pytest.mark.parametrize("name", ["_a", "-a", "/a", "a b", "ä", "a:0", "\\a"])
def test_what_cannot_begin_a_name(name: str) -> None:
    names = Names()
    with pytest.raises(ValueError, match="is not a valid root scope name"), names.entered(name):
        pass
    with pytest.raises(ValueError, match="is not a valid node name"):
        check_op_name(name)


def test_inside_a_scope_a_name_may_begin_with_an_underline() -> None:
    names = Names()
    with names.entered("outer"):
        with names.entered("_inner") as inner:
            assert inner == "outer/_inner/"
        with pytest.raises(ValueError, match="is not a valid scope name"), names.entered("a b"):
            pass


@pytest.mark.parametrize(
    ("name", "may"), [("a", True), ("_a", True), ("a/b>c", True), ("", False), ("a b", False)]
)
def test_names_of_imported_nodes(name: str, may: bool) -> None:
    assert is_node_name(name) is may


def test_the_open_scope_is_that_of_the_thread() -> None:
    names, seen = Names(), list[str]()
    with names.entered("outer"):
        thread = threading.Thread(target=lambda: seen.append(names.unique("add")))
        thread.start()
        thread.join()
    assert seen == ["add"]
