import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

import sparkflow
from sparkflow import other_package
from sparkflow.version import VERSION

PACKAGE = Path(sparkflow.__file__).parent


@pytest.fixture
def folder(tmp_path):
    """A copy of what `import sparkflow` needs, in a folder of that name."""
    target = tmp_path / "sparkflow"
    shutil.copytree(PACKAGE, target, ignore=shutil.ignore_patterns("__pycache__"))
    return target


def run(folder, code):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, timeout=60)


def test_files_beside_ours_are_told_and_ours_work(folder):
    (folder / other_package.FILE).touch()
    done = run(folder, "import sparkflow; print(sparkflow.__file__, sparkflow.__version__)")
    assert done.stdout.split() == [str(folder / "__init__.py"), VERSION]
    assert "RuntimeWarning: " in done.stderr
    assert "another project than `sparkflow-ml`" in done.stderr
    assert "pip uninstall -y sparkflow" in done.stderr


@pytest.mark.parametrize("module", ["sparkflow.spark", "sparkflow.export"])
def test_a_front_end_that_is_not_ours_is_an_error(folder, module):
    (folder / "__init__.py").write_text("")  # like theirs
    done = run(folder, f"import {module}")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: PyPI's `sparkflow`, another project than `sparkflow-ml`")
    assert last.endswith("pip install --force-reinstall --no-deps sparkflow-ml")


def test_ours_alone_is_no_matter():
    other_package.refuse_its_front_end(sparkflow)
    done = run(PACKAGE, "import sparkflow.spark")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_package_with_another_version_is_not_ours():
    with pytest.raises(ImportError, match="sparkflow-ml"):
        other_package.refuse_its_front_end(types.SimpleNamespace(__version__="0.7.0"))
