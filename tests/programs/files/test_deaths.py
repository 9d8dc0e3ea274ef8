"""Saving over existing files, with a death at every call: the old state is left, or the new one."""

import re
from pathlib import Path

import pytest

from support.deaths import deaths

PROGRAM = Path(__file__).with_name("saving_program.py")
_STAYS = re.compile(r"\.partial$|^model-1\.")
"""Next to a file that is replaced: deleted an hour later. And an older checkpoint, if the state
file no longer named it when the process died that would have deleted it."""
CASES = re.findall(r"^        (\w+),$", PROGRAM.read_text(), re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_death_at_any_call_leaves_the_old_state_or_the_new_one(case: str, tmp_path: Path) -> None:
    found = deaths(PROGRAM, case, tmp_path)
    wrong = [each for each in found if each.state not in ("1", "2") or each.again != "2"]
    assert not wrong
    states = [each.state for each in found]
    assert states[0] == "1"
    assert states[-1] == "2"
    assert states == sorted(states), "the new state goes again"
    assert len(found) > 3
    # Leftovers of dead processes are gone after the next one has saved; a checkpoint that died
    # keeps its number, and the names of model files change.
    clean = {shape_of(name) for name in found[-1].files}
    for each in found:
        left = {shape_of(name) for name in each.files} - clean
        assert not [name for name in left if not _STAYS.search(name)], each


def shape_of(name: str) -> str:
    name = re.sub(r"^\.(.*)\.[0-9a-f]{16}\.partial$", r"\1.partial", name)
    name = re.sub(r"(events\.out\.tfevents)\..*", r"\1", name)
    return re.sub(r"-[0-9a-f]{8}\.|checkpoint-\d+-step-\d+", ".", name)
