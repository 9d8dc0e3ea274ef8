"""Each module has tests at its mirrored place, or is in a list that only gets shorter."""

import pytest

from support.beside import lines_of_functions
from support.import_graph import ROOT, modules
from support.mirror import LIST, is_beside, listed, others_tests, own_tests, untested


def test_a_new_module_has_tests():
    new = sorted(set(untested()) - set(listed()))
    assert not new, (
        f"{new} have no tests at their place, the first one no {place(new[0])}. Write them; or, "
        f"if modules were only moved, run `PYTHONPATH=tests .venv/bin/python -m support.mirror`"
    )


def test_a_module_that_has_tests_by_now_has_left_the_list():
    gone = sorted(set(listed()) - set(untested()))
    assert not gone, f"{gone} have tests, or are gone: remove them from {LIST.name}"


def test_the_list_is_in_order():
    assert listed() == sorted(set(listed()))


@pytest.mark.parametrize(("name", "test"), others_tests(ROOT / "tests").items())
def test_what_is_tested_beside_others_is_and_has_no_tests_of_its_own(name, test):
    path = modules().get(name)
    assert path is not None, "it is gone: remove it from tests/contracts/tested_beside.txt"
    assert not own_tests(name, path, ROOT / "tests"), "it has tests: remove it"
    assert test.exists()
    assert is_beside(name, test)


def test_lines_that_count_are_those_that_run():
    text = '"""D."""\nimport os\n\ndef f(x):\n    """D."""\n    if x:\n        return 1\n'
    assert lines_of_functions(text) == {6, 7}


def place(name: str) -> str:
    *folders, last = name.split(".")
    return "/".join(("tests", *folders, f"test_{last.lstrip('_')}.py"))
