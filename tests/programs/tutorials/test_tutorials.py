"""Programs written like TensorFlow 1's tutorials, each run as a separate script.

Their output is recorded in `tests/golden/programs`. If TensorFlow 2.21's `compat.v1` still runs the
program, it prints the same; only random numbers drawn by seed differ, so programs print no more of
those than what training makes of them.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

HERE = Path(__file__).parent
GOLDEN = HERE.parents[1] / "golden" / "programs"
PROGRAMS = sorted(p.stem for p in HERE.glob("*.py") if p.name != Path(__file__).name)
DEADLINE_S = 120
NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d*(?:e[-+]?\d+)?")


def printed_by(program: str, folder: Path, temporary: Path) -> str:
    """Returns what a program prints when run in an empty folder.

    Args:
        program: Its name.
        folder: The folder.
        temporary: The folder for its temporary files, which it leaves.
    """
    done = subprocess.run(
        [sys.executable, str(HERE / f"{program}.py")],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "TMPDIR": str(temporary),
        },
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def text_and_numbers(printed: str) -> tuple[list[str], list[float]]:
    """Returns the lines without their fractions, however those are padded, and the fractions."""
    lines = [" ".join(NUMBER.sub("#", line).split()) for line in printed.splitlines()]
    return lines, [float(number) for number in NUMBER.findall(printed)]


@pytest.fixture(scope="module")
def running(request, tmp_path_factory):
    """The output of the chosen programs, two of which run at a time."""
    chosen = [
        item.callspec.params["program"]
        for item in request.session.items
        if "running" in getattr(item, "fixturenames", ()) and item.module is request.module
    ]
    new = tmp_path_factory.mktemp
    with ThreadPoolExecutor(max_workers=2) as pool:
        yield {name: pool.submit(printed_by, name, new(name), new(name)) for name in chosen}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_prints_what_it_printed_with_tensorflow(program, running):
    lines, numbers = text_and_numbers(running[program].result())
    wanted, fractions = text_and_numbers((GOLDEN / f"{program}.txt").read_text())
    assert lines == wanted
    assert numbers == pytest.approx(fractions, rel=2e-3, abs=2e-3)


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_differ_from_tensorflow_s_in_one_line(program):
    text = (HERE / f"{program}.py").read_text()
    assert text.count("import sparkflow as tf") == 1
    assert text.count("sparkflow") == 1
