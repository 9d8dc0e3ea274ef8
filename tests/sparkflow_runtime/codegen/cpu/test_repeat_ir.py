import pytest

from sparkflow_runtime.codegen.cpu.repeat_ir import TEXT, Head, Kind, ListField
from sparkflow_runtime.codegen.machine import native


@pytest.mark.skipif(not native.available(), reason="needs llvmlite")
def test_the_driver_is_code_that_llvm_takes() -> None:
    assert native.body(TEXT).address


def test_the_steps_begin_behind_the_head() -> None:
    assert max(Head) == Head.STEPS
    assert [*Head] == [*range(len(Head))]


def test_every_field_of_a_list_is_read() -> None:
    for field in ListField:
        assert f"%at_{field.name} = getelementptr i64, ptr %control, i64 {field.value}" in TEXT


def test_kinds_of_steps_that_the_driver_tells_apart() -> None:
    switched = [kind for kind in Kind if f"i64 {kind.value}, label" in TEXT]
    assert set(Kind) - set(switched) == {Kind.CLEAR}  # the default case
