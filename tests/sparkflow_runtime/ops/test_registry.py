"""Modules of ops are imported when one of their ops is looked up, in any order."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparkflow_runtime.errors import AlreadyExistsError, NotFoundError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.index import MODULES
from sparkflow_runtime.ops.op import Op

ROOT = Path(__file__).parents[3]


def test_the_index_is_up_to_date():
    """If not: PYTHONPATH=runtime:. python scripts/generate_op_index.py."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'runtime'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "scripts/generate_op_index.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


IN_SOME_ORDER = """
import random, sys
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.index import MODULES
listed = [each for types in MODULES.values() for each in types.split()]
random.Random(int(sys.argv[1])).shuffle(listed)
for each in listed:
    assert registry.contains(each) and registry.lookup(each).op_type == each
print(sorted(listed) == [op.op_type for op in registry.imported_ops()])
"""


@pytest.mark.parametrize("seed", range(4))
def test_ops_can_be_asked_for_in_any_order(seed):
    """Forms derived from other ops are the same ones, too."""
    command = [sys.executable, "-c", IN_SOME_ORDER, str(seed)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"


def test_one_op_imports_its_module_and_what_that_needs():
    code = "from sparkflow_runtime.ops import registry as r; r.lookup('AddV2'); print(len(r._OPS))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 250


def test_what_is_not_there_is_told_with_what_to_do():
    count = sum(len(types.split()) for types in MODULES.values())
    with pytest.raises(NotFoundError, match=f"'NoSuchOp'.*knows {count}.*must be registered"):
        registry.lookup("NoSuchOp")
    assert not registry.contains("NoSuchOp")


def test_an_op_of_sparkflow_cannot_be_hidden_before_it_is_imported():
    taken = type("MatrixLogarithm", (Op,), {"outputs": "y: float32"})
    with pytest.raises(AlreadyExistsError, match="sparkflow has an op of the type 'MatrixLog"):
        registry.add_own(taken())


def test_what_an_op_says_is_found_before_its_module_is_imported():
    """As for the nodes of a GraphDef read from a file."""
    code = (
        "from sparkflow_runtime.ops import registry\n"
        "print(registry.find('VarHandleOp').is_variable, registry.find('NotThere').is_variable)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]
