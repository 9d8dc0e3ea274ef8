import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sparkflow
import sparkflow.compat.v1 as tf
from sparkflow.compat import v1


def test_v1_is_sparkflow():
    assert tf is sparkflow
    assert v1 is sparkflow
    assert sparkflow.compat.v1 is sparkflow


def test_v1_can_be_the_first_import():
    code = (
        "import sparkflow.compat.v1 as tf; tf.disable_v2_behavior(); "
        "print(tf.Session().run(tf.constant(1) + 1))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "2\n"


def test_text():
    assert tf.compat.as_bytes("ä") == "ä".encode()
    assert tf.compat.as_bytes(b"a") == b"a"
    assert tf.compat.as_bytes(bytearray(b"a")) == b"a"
    assert tf.compat.as_text(b"a") == tf.compat.as_str(b"a") == "a"
    assert tf.compat.as_str_any(3) == "3"
    assert tf.compat.as_str_any(b"3") == "3"
    assert tf.compat.path_to_str(Path("a")) == "a"
    assert tf.compat.path_to_str("a") == "a"
    for convert in (tf.compat.as_bytes, tf.compat.as_text):
        with pytest.raises(TypeError, match="Expected binary or unicode string"):
            convert(3)
    assert isinstance(np.int32(1), tf.compat.integral_types)
    assert isinstance("", tf.compat.bytes_or_text_types)


def test_dates():
    assert tf.compat.forward_compatible(2019, 1, 1)
    assert not tf.compat.forward_compatible(2999, 1, 1)
    with tf.compat.forward_compatibility_horizon(2019, 1, 1):
        pass


def test_switches():
    tf.enable_resource_variables()
    assert tf.resource_variables_enabled()
    tf.disable_v2_behavior()
    assert not tf.resource_variables_enabled()
    tf.disable_control_flow_v2()
    assert not tf.control_flow_v2_enabled()
    tf.enable_control_flow_v2()
    tf.disable_tensor_equality()
    tf.disable_v2_tensorshape()
    with pytest.raises(tf.errors.UnimplementedError, match=r"tf\.equal"):
        tf.enable_tensor_equality()


def test_version_is_that_of_the_interface():
    assert tf.VERSION == tf.__version__ == tf.version.VERSION
    assert tf.VERSION.split(".") == ["1", "15", "0"]
    pyproject = Path(sparkflow.__file__).parents[1] / "pyproject.toml"
    # The wheel's version is read from the module.
    assert 'path = "sparkflow/version.py"' in pyproject.read_text()


def test_folders():
    assert tf.sysconfig.get_lib() == str(Path(sparkflow.__file__).parent)
    assert tf.sysconfig.get_compile_flags() == tf.sysconfig.get_link_flags() == []
    assert tf.resource_loader.get_data_files_path() == str(Path(__file__).parent)
    assert tf.resource_loader.get_path_to_datafile("x") == str(Path(__file__).parent / "x")
    assert b"tf.version" in tf.resource_loader.load_resource("sparkflow/version.py")
