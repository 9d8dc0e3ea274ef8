import os
import subprocess
import sys

from sparkflow.spark.cluster.process.process_title import ROLE, reserve

HERE = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
_PROGRAM = """
import sys
from pathlib import Path
from sparkflow.spark.cluster.process.process_title import set_title
_, executed, module, value = sys.argv
set_title(executed, module, {"SPARKFLOW_TASK": value, "OTHER": None})
for name in ("cmdline", "environ"):
    sys.stdout.buffer.write(Path("/proc/self", name).read_bytes() + b"\\n")
"""


def shown(module: str, value: str) -> tuple[list[bytes], list[bytes]]:
    """Returns the arguments and the variables that the system shows of a process."""
    found = subprocess.run(
        [sys.executable, "-c", _PROGRAM, "a.long.module.name", module, value],
        env=reserve(HERE),
        stdout=subprocess.PIPE,
        check=True,
    )
    arguments, variables, _ = found.stdout.rsplit(b"\n", 2)
    return arguments.split(b"\0"), variables.split(b"\0")


def test_a_module_and_variables_are_shown_in_place_of_others() -> None:
    arguments, variables = shown("module", "worker 12")
    assert arguments[3] == b"module"
    assert [each for each in variables if each.startswith(ROLE.encode())] == [
        f"{ROLE}=worker 12".encode()
    ]
    assert not any(b"OTHER" in each for each in variables)
    others = {f"{name}={value}".encode() for name, value in HERE.items() if name != ROLE}
    assert others <= set(variables)


def test_what_is_too_long_is_not_shown() -> None:
    arguments, variables = shown("a.very.much.longer.module.name", "x" * 2000)
    assert arguments[3] == b"a.long.module.name"
    assert not any(b"xxx" in each for each in variables)
