"""What is left on disk when a process dies at each of its calls that change files.

`deaths` runs a program, a separate module, in processes that die silently at their first, second,
... such call, and returns what was in the folder afterwards. The program has

    before(folder)   creates the folder's initial contents
    change(folder)   is interrupted by death
    state(folder)    describes the folder's contents as text

Files are truncated to half their size if the process dies before they are synced. Calls are
observed where Python makes them: opening for writing, renaming, linking, deleting, creating
directories, syncing.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

_TIMEOUT_S: Final = 240
_DIED: Final = 77
_WATCHED: Final = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate")


@dataclass(frozen=True, slots=True)
class Death:
    """One of the processes.

    Attributes:
        call: The call at which it died; empty for the one that completed.
        state: The result of `state` then.
        again: The result after another `change`.
        files: The files after that.
    """

    call: str
    state: str
    again: str
    files: tuple[str, ...]


def deaths(program: Path, name: str, folder: Path) -> list[Death]:
    """Runs processes that die, except the last one.

    Args:
        program: The file of a module with a dictionary `CASES` of objects with the three methods.
        name: The key of the case.
        folder: An empty directory to work in.

    Raises:
        AssertionError: The program fails other than by dying.
    """
    command = [sys.executable, "-m", "support.deaths"]
    done = subprocess.run(
        [*command, str(program), name, str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},  # pytest has added our folders
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return [Death(each[0], each[1], each[2], tuple(each[3])) for each in found]


def _main(program: str, name: str, folder: str) -> None:
    spec = importlib.util.spec_from_file_location("program", program)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    case = module.CASES[name]
    base, here = Path(folder, "base"), Path(folder, "here")  # files may hold their own paths
    here.mkdir()
    for needed in _in_child(partial(_loading, case, here)).split():
        importlib.import_module(needed)  # once, not again in every child
    here.rename(base)
    found: list[tuple[str, str, str, list[str]]] = []
    number = 0
    while not found or found[-1][0]:
        number += 1
        shutil.copytree(base, here)
        call = _in_child(partial(_dying, case.change, here, number))
        state = _in_child(partial(case.state, here))
        _in_child(partial(case.change, here))
        again = _in_child(partial(case.state, here))
        files = sorted(str(path.relative_to(here)) for path in here.rglob("*") if path.is_file())
        found.append((call, state, again, files))
        shutil.rmtree(here)
    print(json.dumps(found))


def _loading(case: Any, folder: Path) -> str:
    """Creates the folder's initial contents; returns our modules that this and the rest import."""
    before = set(sys.modules)
    case.before(folder)
    copied = folder.with_name("loading")
    shutil.copytree(folder, copied)
    case.state(folder)
    shutil.rmtree(folder)
    copied.rename(folder)
    loaded = set(sys.modules) - before
    return " ".join(sorted(name for name in loaded if name.startswith("sparkflow")))


def _in_child(work: Callable[[], Any]) -> str:
    """Returns a function's result as text, or the note of the process if it died."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(writing, str(work() or "").encode())
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, _DIED), f"the program ended with {code}"
    if code == _DIED:
        note = Path(_note_of(child))
        said = note.read_text()
        note.unlink()
    return said


def _note_of(process: int) -> str:
    return f"/tmp/sparkflow-death-{process}"


def _dying(change: Callable[[Path], Any], folder: Path, at: int) -> None:
    """Calls a function in a process that dies at its `at`th call that changes files in a folder."""
    inside = f"{folder}{os.sep}"
    count = 0
    sync = os.fsync

    def is_the_one() -> bool:
        nonlocal count
        count += 1
        return count == at

    def dies(call: str) -> None:
        Path(_note_of(os.getpid())).write_text(call.replace(inside, ""))
        os._exit(_DIED)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return
        elif event in _WATCHED:
            path = arguments[0]
        else:
            return
        if isinstance(path, int) or not os.path.abspath(os.fsdecode(path)).startswith(inside):
            return
        call = f"{event} {os.fsdecode(path)}"
        if is_the_one():
            dies(call)

    def syncs(descriptor: int) -> None:
        nonlocal count
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if (path.startswith(inside) or path == str(folder)) and is_the_one():
            count += 1  # so that truncating does not count as a call
            if os.path.isfile(path):
                os.truncate(path, os.fstat(descriptor).st_size // 2)
            dies(f"fsync {path}")
        sync(descriptor)

    os.fsync = syncs  # type: ignore[assignment]  # called with descriptors only
    sys.addaudithook(watch)
    change(folder)


if __name__ == "__main__":
    _main(*sys.argv[1:])
