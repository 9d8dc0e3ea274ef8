"""TensorBoard next to a program: its address, its end, and the message if it does not start.

The tests include a TensorBoard of a few lines; `TENSORBOARD_PATH=folder` with a real one tests that
instead.
"""

import logging
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.programs.tensorboard_server import TensorBoardServer

PROGRAM = """
import argparse, functools, http.server, threading

class TensorBoard:
    def configure(self, argv):
        parser = argparse.ArgumentParser()
        for name in ("logdir", "host", "load_fast"):
            parser.add_argument(f"--{name}")
        parser.add_argument("--port", type=int)
        self.flags = parser.parse_args(argv[1:])

    def launch(self):
        handler = functools.partial(
            http.server.SimpleHTTPRequestHandler, directory=self.flags.logdir
        )
        server = http.server.ThreadingHTTPServer((self.flags.host, self.flags.port), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://{self.flags.host}:{server.server_port}/"
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = os.environ.get("TENSORBOARD_PATH")
    if place is None:
        (tmp_path / "site" / "tensorboard").mkdir(parents=True)
        (tmp_path / "site" / "tensorboard" / "__init__.py").touch()
        (tmp_path / "site" / "tensorboard" / "program.py").write_text(PROGRAM)
        place = str(tmp_path / "site")
    monkeypatch.syspath_prepend(place)
    before = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([each for each in (place, before) if each]))


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310  our own server
            return bool(answer.status == 200)
    except OSError:
        return False


def test_it_serves_on_loopback_until_it_is_closed(tmp_path: Path) -> None:
    server = TensorBoardServer(str(tmp_path))
    assert server.url.startswith(("http://127.0.0.1:", "http://localhost:"))
    assert answers(server.url)
    server.close()
    server.close()
    assert not answers(server.url)


def test_what_keeps_it_from_starting_is_said(tmp_path: Path) -> None:
    server = TensorBoardServer(str(tmp_path))
    port = int(server.url.rstrip("/").rpartition(":")[2])
    with pytest.raises(SparkTrainingError, match=r"did not start: .*([Aa]ddress|port)"):
        TensorBoardServer(str(tmp_path), port=port)
    assert answers(server.url)
    server.close()


def test_other_addresses_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        server = TensorBoardServer(str(tmp_path), host="0.0.0.0")
    server.close()
    assert "without authentication" in caplog.text


def test_it_ends_with_a_program_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from sparkflow.spark.programs.tensorboard_server import TensorBoardServer\n"
        f"print(TensorBoardServer({str(tmp_path)!r}).url, flush=True)\n"
        "time.sleep(600)\n"
    )
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    url = program.stdout.readline().strip()
    assert answers(url)
    program.kill()
    program.wait()
    program.stdout.close()
    deadline = time.monotonic() + 30
    while answers(url) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not answers(url)


def test_without_the_package_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'sparkflow-ml\[tensorboard\]'"):
        TensorBoardServer(str(tmp_path))
