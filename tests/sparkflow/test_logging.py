import logging
import subprocess
import sys

import pytest

import sparkflow as tf


@pytest.fixture
def verbosity():
    before = tf.logging.get_verbosity()
    yield
    tf.logging.set_verbosity(before)


def test_levels(caplog, verbosity):
    tf.logging.set_verbosity(tf.logging.INFO)
    assert tf.logging.get_verbosity() == tf.logging.INFO == logging.INFO
    with caplog.at_level(logging.INFO, "tensorflow"):
        tf.logging.debug("no")
        tf.logging.info("%s steps", 3)
        tf.logging.warn("w")
        tf.logging.warning("w")
        tf.logging.error("e")
        tf.logging.fatal("f")
        tf.logging.log(tf.logging.WARN, "l")
        tf.logging.vlog(tf.logging.DEBUG, "no")
        tf.logging.log_if(tf.logging.INFO, "yes", True)
        tf.logging.log_if(tf.logging.INFO, "no", False)
        tf.logging.TaskLevelStatusMessage("t")
    assert [record.getMessage() for record in caplog.records] == (
        ["3 steps", "w", "w", "e", "f", "l", "yes", "t"]
    )
    assert {record.filename for record in caplog.records} == {"test_logging.py"}
    tf.logging.flush()


def test_repeated_lines(caplog, verbosity):
    with caplog.at_level(logging.INFO, "tensorflow"):
        for i in range(5):
            tf.logging.log_every_n(tf.logging.INFO, "every %d", 2, i)
            tf.logging.log_first_n(tf.logging.INFO, "first %d", 2, i)
    texts = [record.getMessage() for record in caplog.records]
    assert texts == ["every 0", "first 0", "first 1", "every 2", "every 4"]


def test_lines_look_as_those_of_tensorflow():
    code = (
        "import sparkflow as tf; tf.logging.info('no'); tf.logging.set_verbosity(tf.logging.INFO); "
        "tf.logging.info('step = %d', 3); assert tf.get_logger().name == 'tensorflow'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr == "INFO:tensorflow:step = 3\n"
