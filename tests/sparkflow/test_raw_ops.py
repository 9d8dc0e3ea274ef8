"""`tf.raw_ops`: every op by its name and its arguments' names, as in TensorFlow."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sparkflow as tf
from sparkflow import raw_ops
from sparkflow_runtime.ops import registry

ROOT = Path(__file__).parents[2]
NAMES = ROOT / "tests" / "golden" / "names"
THEIRS: dict[str, list[str]] = json.loads((NAMES / "raw_ops.json").read_text())
OP_DEFS: dict[str, list[list[str]]] = json.loads((NAMES / "op_defs.json").read_text())


def ours_too(names: dict[str, object]) -> list[str]:
    return [name for name in names if registry.contains(name)]


def test_has_most_of_tensorflows_ops():
    assert len(ours_too(THEIRS)) >= 821


@pytest.mark.parametrize("name", ours_too(THEIRS))
def test_parameters_are_named_as_in_tensorflow(name):
    assert raw_ops.parameters(registry.lookup(name)) == THEIRS[name]


OWN_OUTPUT = {"tape"}


@pytest.mark.parametrize("name", ours_too(OP_DEFS))
def test_arguments_and_outputs_of_the_op_are_named_as_in_tensorflow(name):
    signature = registry.lookup(name).signature
    inputs, outputs, attrs = OP_DEFS[name]
    assert [arg.name for arg in signature.inputs] == inputs
    assert [arg.name for arg in signature.outputs if arg.name not in OWN_OUTPUT] == outputs
    own = {attr for attr in signature.attrs if attr.startswith("_")}
    if not name.startswith("_"):
        assert set(signature.attrs) - own == set(attrs)


def test_several_outputs_are_a_named_tuple():
    with tf.Graph().as_default(), tf.Session() as session:
        found = tf.raw_ops.TopKV2(input=[1.0, 3.0, 2.0], k=2)
        values, indices = session.run([found.values, found.indices])
    np.testing.assert_array_equal(values, [3, 2])
    np.testing.assert_array_equal(indices, [1, 2])


def test_an_output_that_is_a_list_is_one_entry_of_the_tuple():
    with tf.Graph().as_default(), tf.Session() as session:
        made = tf.raw_ops.SparseSplit(
            split_dim=np.int64(0),
            indices=np.array([[0, 0], [1, 1]]),
            values=[1, 2],
            shape=np.array([2, 2]),
            num_split=2,
        )
        assert [len(part) for part in made] == [2, 2, 2]
        assert session.run(made.output_values)[1].tolist() == [2]


def test_renamed_arguments_attributes_names_and_devices():
    with tf.Graph().as_default(), tf.Session() as session:
        total = tf.raw_ops.Sum(input=[[1, 2], [3, 4]], axis=[0], keep_dims=True, name="total")
        assert (total.op.name, total.op.inputs[1].op.name) == ("total", "total/reduction_indices")
        assert session.run(total).tolist() == [[4, 6]]
        chosen = tf.raw_ops.Select(condition=True, x=1, y=2)
        assert session.run(chosen) == 1
        assert tf.raw_ops.NoOp().type == "NoOp"
        assert len(tf.raw_ops.Split(axis=0, value=[1, 2], num_split=2)) == 2


def test_gradients_flow():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant([1.0, 2.0])
        (gradient,) = tf.gradients(tf.raw_ops.Mul(x=x, y=x), x)
        assert session.run(gradient).tolist() == [2, 4]


def test_takes_names_only():
    with pytest.raises(TypeError, match=r"Add only takes keyword args .possible keys: ..x., .y., "):
        tf.raw_ops.Add(1, 2)
    with pytest.raises(TypeError, match="missing a required argument: 'y'"):
        tf.raw_ops.Add(x=1)


def test_an_op_that_is_not_here_says_so():
    assert not hasattr(tf.raw_ops, "XlaConcatND")
    with pytest.raises(AttributeError, match=r"sparkflow has no op of that type.* mean 'Add'"):
        _ = tf.raw_ops.Ad
    with pytest.raises(AttributeError):
        _ = tf.raw_ops._Arg


def test_lists_what_there_is():
    assert dir(tf.raw_ops) == raw_ops.__all__
    assert "TopKV2" in dir(tf.raw_ops)
    assert tf.raw_ops.Relu.__doc__


def test_the_stub_is_up_to_date():
    path = ROOT / "scripts" / "generate_raw_ops_stub.py"
    spec = importlib.util.spec_from_file_location("generate_raw_ops_stub", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.stub() == script.STUB.read_text(), "run scripts/generate_raw_ops_stub.py"


def test_importing_sparkflow_does_not_load_it():
    code = "import sys, sparkflow; print('sparkflow.raw_ops' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
