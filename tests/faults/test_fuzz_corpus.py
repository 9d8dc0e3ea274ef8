"""Every input that a fuzzer has found worth keeping is given to its parser again.

`fuzz/run.py` finds them and writes them to `fuzz/corpus/`, including former findings.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FUZZ = Path(__file__).parents[2] / "fuzz"
FAMILIES = ("graphs", "tensors", "records", "wire", "ops", "tables")


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FUZZ))
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("fuzz")))
        yield importlib.import_module("oracle")
        for name in [each for each in sys.modules if each.split(".")[0] in ("oracle", "targets")]:
            del sys.modules[name]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.filterwarnings("ignore")
def test_every_parser_keeps_its_word_for_what_fuzzers_have_found(oracle: Any, family: str) -> None:
    assert tuple(oracle.FAMILIES) == FAMILIES
    for target in importlib.import_module(f"targets.{family}").TARGETS:
        for seed in target.seeds():
            target.run(seed)  # a valid one: nothing is raised
        kept = sorted((oracle.CORPUS / target.name).glob("*"))
        assert kept, f"python fuzz/run.py --keep --target {target.name}"
        for path in kept:
            try:
                oracle.check(target, path.read_bytes())
            except Exception as error:
                raise AssertionError(f"{target.name} does not keep its word for {path}") from error


def test_no_input_is_kept_for_a_parser_that_is_gone(oracle: Any) -> None:
    names = {target.name for _, target in oracle.all_targets()}
    assert {path.name for path in oracle.CORPUS.iterdir()} == names
