"""The TensorFlow API: generated, up to date, declared once."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import sparkflow as tf
from sparkflow._generated import names, packages as packages_

ROOT = Path(__file__).parents[2]
OPS = ROOT / "sparkflow" / "ops"


def test_the_generated_files_are_up_to_date():
    """If not: PYTHONPATH=runtime:. python scripts/generate_api.py."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'runtime'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "scripts/generate_api.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_public_names_besides_tensorflows_are_listed():
    """If not: scripts/generate_public_api.py; docs/compatibility.md says what may be removed."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'runtime'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "scripts/generate_public_api.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_no_public_name_is_that_of_a_module_beside_it():
    """Whoever imported the module would get it in the place of the function."""
    packages = {"": names.HOMES, **packages_.HOMES}
    found = [
        f"tf.{package}.{last}"
        for package, homes in packages.items()
        for listed in homes.values()
        for last in (each.rpartition(":")[2] for each in listed.split())
        for folder in [ROOT.joinpath("sparkflow", *package.split("."))]
        if (folder / f"{last}.py").exists() or (folder / last / "__init__.py").exists()
    ]
    assert found == []


def adds_one_node(function):
    """Whether a function only passes its own arguments on to `apply_op`."""
    *first, last = [
        each
        for each in function.body
        if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
    ]
    call = last.value if isinstance(last, ast.Return) else None
    if isinstance(call, ast.Name) and len(first) == 1 and isinstance(first[0], ast.AnnAssign):
        call, first = first[0].value, []
    if first or not isinstance(call, ast.Call) or getattr(call.func, "id", "") != "apply_op":
        return False
    given = [*call.args[1:], *(each.value for each in call.keywords)]
    return isinstance(call.args[0], ast.Constant) and all(
        isinstance(each, ast.Name) or ast.unparse(each).startswith(("as_dtype(", "name or "))
        for each in given
    )


NAMELESS = {"broadcast_dynamic_shape"}
"""It has no `name`, like TensorFlow's."""


def test_a_function_that_only_adds_a_node_is_a_row_of_a_table():
    """See `sparkflow/_api/ops`."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in sorted(OPS.rglob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
        and node.name not in NAMELESS
        and not node.name.startswith("_")
        and adds_one_node(node)
    ]
    assert found == []


def test_the_check_sees_such_functions():
    body = "'''Max.'''\n    result: T = apply_op('Relu', x, name=name)\n    return result"
    (node,) = ast.parse(f"def relu(x, name=None):\n    {body}").body
    assert adds_one_node(node)
    (node,) = ast.parse("def twice(x):\n    return apply_op('Add', f(x), x)").body
    assert not adds_one_node(node)


@pytest.mark.parametrize("module", ["math", "nn", "nn.rnn_cell", "python.client.timeline"])
def test_modules_of_the_surface_can_be_imported_by_their_names(module):
    code = f"import sparkflow.{module} as found; print(found.__name__, len(found.__all__) > 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [f"sparkflow.{module}", "True"]


def test_help_states_dtypes_shapes_and_errors():
    text = tf.nn.relu.__doc__
    assert "features: Tensor [...] of any real number." in text
    assert "A tensor with the shape and dtype of `features`." in text
    assert "TypeError:" in text
    assert "ValueError: The shapes do not broadcast." in tf.subtract.__doc__


def test_names_are_looked_up_once():
    assert "relu6" in dir(tf.nn)
    first = tf.nn.relu6
    assert vars(tf.nn)["relu6"] is first
