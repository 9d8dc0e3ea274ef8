"""Shared by all tests: marks, skips without a GPU, examples that are the same in every run."""

import functools
import gc
import logging
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from sparkflow_runtime.compiler import program, specialise
from sparkflow_runtime.ops import all as _all_ops  # noqa: F401  (tests put back what they found)
from sparkflow_runtime.testing.aliases import check_aliases
from support.busy_threads import left_busy
from support.temporary import own_directory, taken_left

settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.load_profile("same")


@functools.cache
def _why_no_gpu() -> str | None:
    """Returns the reason why GPU tests cannot run here; None if they can."""
    try:
        import cupy
    except ImportError:
        return "cupy is not installed (pip install 'sparkflow-ml[gpu12]')"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CUDA has no usable device: {error}"
    return None if count else "CUDA reports no device"


_NOT_FAST = re.compile(
    r"pyspark|sparkflow\.spark|local_?cluster|Server\(|subprocess|multiprocessing|support\.programs"
    r"|support\.deaths|sparkflow_runtime\.codegen|plans_at_once|support\.plans|cuda|fake_cupy|onnx",
    re.IGNORECASE,
)
"""Contents of test files that start Spark, servers or processes, or compile kernels."""

_SAMPLE_OF = 32
"""`--fast` takes every eighth row of a table with more rows than this."""


_MUCH = 2
"""The number of collections of the second generation: some 14,000 objects."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Disables garbage collection while tests are collected; later ignores their million objects.

    It took 3.6 s of the 12.8 s of processor time for collecting in each process. Afterwards it
    would take half a second each time, and tests often collect garbage (2026-11-28).
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="module", autouse=True)
def garbage_of_the_module() -> Iterator[None]:
    """Frees what a file of tests has left, if it is much, and excludes the rest later."""
    yield
    if gc.get_count()[2] >= _MUCH:
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def no_thread_is_left_busy() -> Iterator[None]:
    """Fails the last test of a file that has left a thread computing.

    One such thread made the tests after it in its process take up to ten times as long.
    """
    yield
    found = left_busy()
    assert not found, "\n".join(found)


@pytest.fixture(scope="session", autouse=True)
def temporary_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Puts temporary files of tests and of their processes into the directory of the test run."""
    with own_directory(tmp_path_factory.mktemp("temporary", numbered=False)) as folder:
        yield folder


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left(temporary_directory: Path) -> Iterator[None]:
    """Fails if a file of tests has left a temporary file or directory."""
    yield
    assert taken_left(temporary_directory) == []


@pytest.fixture(scope="session", autouse=True)
def runtime_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Separates the user token of the tests from that of the user's programs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        yield


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Makes SIGINT raise KeyboardInterrupt, for tests that send it to this process.

    Shells make background processes ignore it, and pyspark leaves a handler behind.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def own_ops_of_the_test() -> Iterator[None]:
    """Removes the ops that a test has registered: other tests in its process count all ops."""
    registry = sys.modules.get("sparkflow_runtime.ops.registry")
    before = set() if registry is None else set(registry._OPS)
    yield
    if registry is None:
        return
    for name in registry._OPS.keys() - before - registry._HOMES.keys():
        del registry._OPS[name]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds options; with `--plans-at-once`, every test runs what later steps of a kind run."""
    parser.addoption(
        "--fast",
        action="store_true",
        help="no Spark, clusters and compiled plans; every eighth row of long tables",
    )
    parser.addoption(
        "--plans-at-once",
        action="store_true",
        help="make the plan of a partition for the first step with any shapes, not for a later one",
    )
    parser.addoption(
        "--check-aliases",
        action="store_true",
        help="see after every kernel that its outputs share memory with no input but those it says",
    )


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture(autouse=True)
def no_plan_fails(request: pytest.FixtureRequest) -> Iterator[list[logging.LogRecord]]:
    """Fails a test in which a plan could not be created, which otherwise only costs speed.

    Yields the log records about it: a test that expects it clears the list.
    """
    if request.config.getoption("--plans-at-once"):
        request.getfixturevalue("plans_at_once")
    if request.config.getoption("--fast"):  # no plans: compiled code is only faster
        request.getfixturevalue("monkeypatch").setattr(specialise, "SIGHTINGS", sys.maxsize)
    failures = _Records()
    log = logging.getLogger(specialise.__name__)
    log.addHandler(failures)
    yield failures.records
    log.removeHandler(failures)
    texts = [logging.Formatter().format(record) for record in failures.records]
    assert not texts, "\n".join(texts)


@pytest.fixture
def plans_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the first step with any shapes run their plan, which otherwise a later one does."""
    monkeypatch.setattr(specialise, "SIGHTINGS", 1)


@pytest.fixture(scope="session", autouse=True)
def aliases_are_said(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `--check-aliases`, checks every kernel of every session against its op's traits."""
    if not request.config.getoption("--check-aliases"):
        yield
        return
    bind = program.bind_kernel

    def bind_checked(op, node, context):
        kernel = bind(op, node, context)

        def run(*given):
            made = kernel(*given)
            check_aliases(op, node, given[op.takes_step :], made)
            return made

        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "bind_kernel", bind_checked)
        yield


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--fast`, skips files by their text: they are not even imported."""
    if not config.getoption("--fast") or collection_path.suffix != ".py":
        return None
    return _NOT_FAST.search(collection_path.read_text()) is not None or None


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by mark
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks every test that uses the `spark` fixture, so that `-m` selects all of them."""
    if config.getoption("--fast"):
        items[:] = _sample(items)
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


def _sample(items: list[pytest.Item]) -> list[pytest.Item]:
    rows: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow") is None and item.get_closest_marker("gpu") is None:
            rows.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return [
        item
        for table in rows.values()
        for number, item in enumerate(table)
        if len(table) <= _SAMPLE_OF or number % 8 == 0
    ]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test marked `gpu` if no GPU can be used, with the reason."""
    if item.get_closest_marker("gpu") is not None:
        reason = _why_no_gpu()
        if reason is not None:
            pytest.skip(reason)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """In one of several processes, reports less of a test to the first one: `support.messages`.

    With `-x` nothing is left out, since reports determine the end of a run.
    """
    if not hasattr(item.config, "workerinput") or item.config.getoption("maxfail"):
        return None
    from support.messages import run_and_tell

    run_and_tell(item, nextitem)
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """If a recorded answer differs, reports which functions and ops it involves."""
    outcome = yield
    report = outcome.get_result()
    parameters = getattr(getattr(item, "callspec", None), "params", None)
    if not report.failed or call.when != "call" or parameters is None:
        return
    from support.suspects import suspects, texts_in

    found = suspects([*texts_in(parameters), str(call.excinfo.value)])
    if found:
        report.sections.append(("where to look", "\n".join(found)))
