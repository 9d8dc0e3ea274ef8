"""No test changes all clocks: threads of other libraries use them throughout the test process."""

import ast
import re
from pathlib import Path

from support.import_graph import ROOT

MAY_CHANGE = re.compile(r"setattr\(\s*[\"'\w.]*\btime\b")


def changes_all_clocks(call: ast.Call) -> bool:
    """Whether a call is `monkeypatch.setattr(time, ...)`, however it is spelt."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "setattr" and call.args):
        return False
    target = call.args[0]
    match target:
        case ast.Constant(value=str(name)):
            return name.startswith("time.")
        case ast.Name(id="time") | ast.Attribute(attr="time"):
            return True
    return False


def test_tests_change_the_clock_of_single_modules_only():
    texts = {path: path.read_text("utf-8") for path in sorted((ROOT / "tests").rglob("*.py"))}
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, text in texts.items()
        if MAY_CHANGE.search(text) and path != Path(__file__)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and changes_all_clocks(node)
    ]
    assert not found, f"{found}: use support.clocks.give_time"


def test_what_changes_all_clocks_is_found():
    for text in (
        'm.setattr("time.sleep", f)',
        'm.setattr(time, "time", f)',
        "m.setattr(a.time, n)",
    ):
        assert changes_all_clocks(ast.parse(text).body[0].value)
    assert not changes_all_clocks(ast.parse('m.setattr(a, "time", f)').body[0].value)
