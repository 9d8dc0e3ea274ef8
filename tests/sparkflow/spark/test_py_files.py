"""A wheel sent unchanged by `spark-submit --py-files`."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

import sparkflow
import sparkflow_runtime
from support import java

PROGRAM = Path(__file__).with_name("py_files_program.py")


def wheel(folder: Path) -> Path:
    """The packages as in the released wheel."""
    path = folder / "sparkflow_ml-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for package in (sparkflow, sparkflow_runtime):
            root = Path(package.__file__).parent
            for each in root.rglob("*"):
                if each.suffix in (".py", ".pyi", ".typed"):
                    archive.write(each, each.relative_to(root.parent))
    return path


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_executors_import_the_wheel_that_was_submitted(tmp_path: Path) -> None:
    program = tmp_path / "train.py"  # the tree is not next to it
    program.write_text(PROGRAM.read_text())
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_SUBMIT_OPTS": java.options(),  # workers that have not imported anything of ours
    }
    submit = [str(home / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]"]
    done = subprocess.run(
        [*submit, "--py-files", str(wheel(tmp_path)), str(program)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=380,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert said["rows"] == "20"
    assert ".whl/sparkflow/" in said["driver"]
    assert ".whl/sparkflow/" in said["executor"]
