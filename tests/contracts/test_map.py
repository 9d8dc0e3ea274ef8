"""Each module has tests at its place, or stands in a list that only gets shorter."""

from support.mirror import LIST, listed, untested


def test_a_new_module_has_tests():
    new = sorted(set(untested()) - set(listed()))
    assert not new, (
        f"{new} have no tests at their place, the first one no {place(new[0])}. Write them; or, "
        f"if modules were only moved, run `PYTHONPATH=tests .venv/bin/python -m support.mirror`"
    )


def test_a_module_that_has_tests_by_now_has_left_the_list():
    gone = sorted(set(listed()) - set(untested()))
    assert not gone, f"{gone} have tests, or are gone: take them out of {LIST.name}"


def test_the_list_is_in_order():
    assert listed() == sorted(set(listed()))


def place(name: str) -> str:
    *folders, last = name.split(".")
    return "/".join(("tests", *folders, f"test_{last.lstrip('_')}.py"))
