import subprocess
import sys

from support.changed import ops
from support.import_graph import ROOT
from support.suspects import MOST, suspects, texts_in

RELU = f"op Relu: {ops()['Relu'].relative_to(ROOT)}"


def test_names_the_function_with_its_line_and_the_op_with_its_module():
    function, *rest = suspects(["tf.nn.relu(x) + 1"])
    assert function.startswith("tf.nn.relu: sparkflow/")
    assert int(function.rpartition(":")[2]) > 1
    assert rest == [RELU]


def test_follows_names_to_where_they_are_written():
    (function, *_) = suspects(["tf.train.AdamOptimizer(0.1).minimize(loss)"])
    assert function.startswith("tf.train.AdamOptimizer: sparkflow/train/optimizers/adam.py:")


def test_finds_op_types_in_messages():
    found = suspects(["Einsum: got [1.0], expected [2.0]"])
    assert found == ["op Einsum: runtime/sparkflow_runtime/ops/linalg/einsum.py"]


def test_what_is_neither_is_left_out():
    assert suspects(["Some Words, tf.no_such_function(x)"]) == []


def test_names_few():
    names = ("abs", "exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil", "round")
    assert len(suspects([f"tf.{name}(x)" for name in names])) == MOST


def test_reads_parameters_but_for_what_all_cases_share():
    entry = {"preamble": "x = tf.ones([2])", "case": "tf.abs(x)", "values": [{"dtype": "float32"}]}
    assert list(texts_in((entry, 3))) == ["tf.abs(x)", "float32"]


def test_a_failing_case_says_where_to_look(tmp_path, request):
    program = tmp_path / "test_case.py"
    program.write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('entry', [{'case': 'tf.nn.relu(x)'}])\n"
        "def test_answers(entry):\n    assert 1 == 2\n"
    )
    root = request.config.rootpath
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "conftest"),
            *("--rootdir", str(root), "-c", str(root / "pyproject.toml"), str(program)),
            *("--basetemp", str(tmp_path / "temporary")),
        ],
        capture_output=True,
        text=True,
        cwd=root,
        check=False,
    )
    assert "where to look" in done.stdout
    assert RELU in done.stdout
