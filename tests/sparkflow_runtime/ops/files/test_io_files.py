"""ReadFile, WriteFile, MatchingFiles: their results depend on the host's files."""

import os

import numpy as np
import pytest

from sparkflow_runtime import errors
from sparkflow_runtime.ops import registry


def scalar(text):
    result = np.empty((), object)
    result[()] = os.fsencode(text)
    return result


def compute(op_type, *inputs):
    return registry.lookup(op_type).compute(np, *inputs)


def test_what_is_written_is_found_and_read(tmp_path):
    path = tmp_path / "deep" / "a.txt"
    compute("WriteFile", scalar(path), scalar("text"))
    assert compute("ReadFile", scalar(path)).item() == b"text"
    found = compute("MatchingFiles", scalar(tmp_path / "*" / "?.txt"))
    assert found.tolist() == [os.fsencode(path)]


def test_files_are_read_anew_in_every_step():
    assert all(registry.lookup(name).stateful for name in ("ReadFile", "MatchingFiles"))


def test_failures(tmp_path):
    with pytest.raises(errors.NotFoundError, match="none"):
        compute("ReadFile", scalar(tmp_path / "none"))
    with pytest.raises(errors.FailedPreconditionError, match="Is a directory"):
        compute("WriteFile", scalar(tmp_path), scalar("x"))
