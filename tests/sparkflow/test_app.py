"""`tf.app` and `tf.flags` in separate programs: flags are global to a process."""

import subprocess
import sys

import pytest

PROGRAM = """
import sparkflow as tf

flags = tf.app.flags
flags.DEFINE_string("name", "nobody", "Who")
flags.DEFINE_integer("steps", 3, "How many")
flags.DEFINE_float("rate", 0.5, "How fast")
flags.DEFINE_boolean("fast", False, "Whether")
tf.flags.DEFINE_bool(flag_name="sure", default_value=True, docstring="Whether")
tf.app.flags.DEFINE_list("hosts", "a,b", "Where")
tf.app.flags.DEFINE_enum("kind", "x", ["x", "y"], "Which")
FLAGS = flags.FLAGS
"""
ARGUMENTS = ["--name=me", "--steps", "5", "--fast", "--nosure", "--kind=y", "--unknown=1", "rest"]


def run(tmp_path, body, arguments=ARGUMENTS):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM + body)
    return subprocess.run(
        [sys.executable, str(path), *arguments], capture_output=True, text=True, timeout=60
    )


def test_run_parses_flags_and_exits_with_the_result(tmp_path):
    done = run(
        tmp_path,
        """
def main(argv):
    print(argv[1:], FLAGS.name, FLAGS.steps, FLAGS.rate, FLAGS.fast, FLAGS.sure, FLAGS.hosts)
    return 7

if __name__ == "__main__":
    tf.app.run()
""",
    )
    assert done.stdout == "['--unknown=1', 'rest'] me 5 0.5 True False ['a', 'b']\n", done.stderr
    assert done.returncode == 7


def test_run_takes_main_and_argv(tmp_path):
    body = """
tf.app.run(main=lambda argv: print(argv, FLAGS.steps), argv=["p", "--steps=9", "z"])
"""
    done = run(tmp_path, body)
    assert done.stdout == "['p', 'z'] 9\n"
    assert done.returncode == 0


@pytest.mark.parametrize("access", ["FLAGS.steps", "tf.flags.FLAGS.steps"])
def test_flags_are_parsed_at_the_first_access(tmp_path, access):
    done = run(tmp_path, f"print({access}, FLAGS.kind)")
    assert done.stdout == "5 y\n", done.stderr


def test_flags_can_be_set_and_listed(tmp_path):
    body = """
FLAGS.steps = 11
print(FLAGS.steps, FLAGS.name, "steps" in FLAGS, FLAGS["rate"].value)
print(FLAGS.flag_values_dict()["kind"])
"""
    assert run(tmp_path, body).stdout == "11 me True 0.5\ny\n"


def test_a_wrong_value_is_refused(tmp_path):
    done = run(tmp_path, "tf.app.run(lambda _: None)", ["--steps=many"])
    assert done.returncode == 1
    assert "steps" in done.stdout + done.stderr
