"""The programs of distributed TensorFlow 1 on each kind of cluster that is part of Spark."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.standalone import standalone

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(900)]

PROGRAM = Path(__file__).with_name("seed_programs.py")


@pytest.mark.parametrize("master", ["local[4]", "local-cluster[3,2,1024]", "standalone"])
def test_seed_programs(master, tmp_path):
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(standalone(tmp_path, 3, 2)) if master == "standalone" else master
        done = subprocess.run(
            [sys.executable, str(PROGRAM), url, str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=800,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_WORKER_DIR": str(tmp_path / "work"),
                "SPARK_LOCAL_DIRS": str(tmp_path / "local"),
            },
        )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["devices"] == ["/job:ps/task:0", "/job:ps/task:1"]
    np.testing.assert_allclose(found["in_graph"], [1, -2, 0.5, 0], atol=0.02)
    assert found["ring"] == [3, 3]
    assert len(found["between_graph"]) == 2
    for weights in found["between_graph"]:
        np.testing.assert_allclose(weights, [1, -2, 0.5], atol=0.02)
    if master != "local[4]":
        assert "has gone" in found["lost"]
        np.testing.assert_allclose(found["again"], [1, -2, 0.5, 0], atol=0.02)
