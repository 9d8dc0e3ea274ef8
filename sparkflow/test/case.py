"""`tf.test.TestCase`: a fresh graph and seed per test, sessions, and assertions about errors."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from absl.testing import absltest

from sparkflow.graph.default_stack import default_graphs
from sparkflow.graph.graph import Graph
from sparkflow.graph.scopes import get_default_graph, get_default_session
from sparkflow.ops.random.random import DEFAULT_GRAPH_SEED
from sparkflow.session.session import Session
from sparkflow.test.arrays import ArrayAssertions
from sparkflow.test.messages import assert_proto_equal
from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.errors import InvalidArgumentError, OpError
from sparkflow_runtime.protos.config_pb2 import ConfigProto


class TestCase(ArrayAssertions, absltest.TestCase):
    """The base class of tests of graphs.

    Before each test the random generators of Python and numpy are seeded, and there is a new
    default graph whose seed is 87654321; after it the cached session is closed and the temporary
    folder removed.
    """

    __test__ = True

    def __init__(self, methodName: str = "runTest") -> None:
        super().__init__(methodName)
        self._threads: list[CheckedThread] = []
        self._temporary: str | None = None
        self._cached_session: Session | None = None
        self._outer_graphs: list[Graph] | None = None
        self._cached_for: tuple[Any, Any, bool] = (None, None, False)

    def setUp(self) -> None:
        """Creates the default graph and seeds it, numpy and `random`."""
        super().setUp()
        self._close_cached_session()
        random.seed(DEFAULT_GRAPH_SEED)
        np.random.seed(DEFAULT_GRAPH_SEED)
        self._take_default_graphs()
        get_default_graph().seed = DEFAULT_GRAPH_SEED

    def tearDown(self) -> None:
        """Closes the session; fails when a thread was not joined."""
        for thread in self._threads:
            thread.check_termination()
        self._threads.clear()
        self._close_cached_session()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None
        self._give_default_graphs_back()
        super().tearDown()

    def get_temp_dir(self) -> str:
        """A folder of this test alone, removed after it."""
        if self._temporary is None:
            self._temporary = tempfile.mkdtemp(dir=get_temp_dir())
        return self._temporary

    @contextlib.contextmanager
    def session(
        self,
        graph: Graph | None = None,
        config: ConfigProto | None = None,
        use_gpu: bool = False,
        force_gpu: bool = False,
    ) -> Iterator[Session]:
        """A new session, the default one inside the block and closed after it.

        Args:
            graph: The graph to run; the default one when None.
            config: Session options.
            use_gpu: Do not pin what is made inside to the CPU.
            force_gpu: Pin it to the GPU.
        """
        with (
            self._create_session(graph, config, force_gpu) as session,
            _as_default(session, use_gpu, force_gpu),
        ):
            yield session

    @contextlib.contextmanager
    def cached_session(
        self,
        graph: Graph | None = None,
        config: ConfigProto | None = None,
        use_gpu: bool = False,
        force_gpu: bool = False,
    ) -> Iterator[Session]:
        """The session of this test: made at the first call, open until the test ends.

        Args:
            graph: As for `session`.
            config: As for `session`.
            use_gpu: As for `session`.
            force_gpu: As for `session`.

        Raises:
            ValueError: An earlier call had another graph, config or `force_gpu`.
        """
        session = self._get_cached_session(graph, config, force_gpu, check=True)
        with _as_default(session, use_gpu, force_gpu):
            yield session

    def test_session(
        self,
        graph: Graph | None = None,
        config: ConfigProto | None = None,
        use_gpu: bool = False,
        force_gpu: bool = False,
    ) -> AbstractContextManager[Session]:
        """`cached_session` without a graph, `session` with one; TensorFlow 1's older way."""
        if self.id().endswith(".test_session"):
            self.skipTest("Not a test.")
        if graph is not None:
            return self.session(graph, config, use_gpu, force_gpu)
        session = self._get_cached_session(graph, config, force_gpu, check=False)
        return _as_default(session, use_gpu, force_gpu)

    def evaluate(self, tensors: Any) -> Any:
        """The values of tensors, run in the default session or, without one, the test's own.

        Args:
            tensors: A tensor, variable or operation, or nested structures of those and of values,
                which stay as they are.
        """
        if _is_eager(tensors):
            return _eager_values(tensors)
        session = get_default_session()
        if session is not None:
            return session.run(tensors)
        with self.test_session() as own:
            return own.run(tensors)

    def assertRaisesWithPredicateMatch(  # type: ignore[override]  # TensorFlow's names
        self, exception_type: Any, expected_err_re_or_predicate: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """A block (or a call) that must raise an exception which fits.

        Args:
            exception_type: The class.
            expected_err_re_or_predicate: A regular expression found in the text, or a function
                from the exception to whether it fits.
            *args: A function and its arguments, instead of a `with` block.
            **kwargs: Its keyword arguments.
        """
        if callable(expected_err_re_or_predicate):
            fits = expected_err_re_or_predicate
        else:

            def fits(error: BaseException) -> bool:
                return re.search(expected_err_re_or_predicate, _text_of(error)) is not None

        block = self._raising(exception_type, fits, expected_err_re_or_predicate)
        if not args:
            return block
        with block:
            args[0](*args[1:], **kwargs)
        return None

    @contextlib.contextmanager
    def _raising(self, kind: Any, fits: Callable[[Any], bool], wanted: Any) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not isinstance(error, kind) or not fits(error):
                raise AssertionError(
                    f"Exception of type {type(error)}: {error} does not match {wanted!r}"
                ) from error
            return
        name = getattr(kind, "__name__", str(kind))
        self.fail(f"{name} not raised")

    def assertRaisesOpError(self, expected_err_re_or_predicate: Any) -> Any:
        """A block that must raise a `tf.errors.OpError` which fits."""
        return self.assertRaisesWithPredicateMatch(OpError, expected_err_re_or_predicate)

    def assertRaisesIncompatibleShapesError(
        self, exception_type: Any = InvalidArgumentError
    ) -> Any:
        """A block that must raise an error about incompatible shapes."""
        return self.assertRaisesWithPredicateMatch(
            exception_type, r"Incompatible shapes|Dimensions must be equal|required broadcastable"
        )

    def assertDeviceEqual(self, device1: Any, device2: Any, msg: str | None = None) -> None:
        """Passes when two device names, in whatever spelling, mean the same."""
        first, second = (
            DeviceSpec.from_string(getattr(each, "to_string", lambda e=each: e)() or "")
            for each in (device1, device2)
        )
        text = f"Devices {device1} and {device2} are not equal. {msg or ''}"
        self.assertEqual(first, second, text)

    def assertProtoEquals(
        self, expected_message_maybe_ascii: Any, message: Any, msg: str | None = None
    ) -> None:
        """Passes when a message equals another one, or one written in protobuf's text format."""
        assert_proto_equal(self, expected_message_maybe_ascii, message, msg)

    def assertProtoEqualsVersion(
        self,
        expected: str,
        actual: Any,
        producer: int | None = None,
        min_consumer: int | None = None,
        msg: str | None = None,
    ) -> None:
        """`assertProtoEquals` for a GraphDef, whose versions are added to the expected text."""
        versions = actual.versions
        number = versions.producer if producer is None else producer
        minimum = versions.min_consumer if min_consumer is None else min_consumer
        text = f"versions {{ producer: {number} min_consumer: {minimum} }};\n{expected}"
        self.assertProtoEquals(text, actual, msg)

    def checkedThread(
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> CheckedThread:
        """A thread whose `join` raises what `target` raised; the test fails if it is not joined."""
        thread = CheckedThread(self, target, args or (), kwargs or {})
        self._threads.append(thread)
        return thread

    # Spellings that Python 3.12 dropped from unittest and that tests of TensorFlow 1's time use.

    def assertRaisesRegexp(self, *args: Any, **kwargs: Any) -> Any:
        """`assertRaisesRegex`."""
        return self.assertRaisesRegex(*args, **kwargs)

    def assertRegexpMatches(self, *args: Any, **kwargs: Any) -> None:
        """`assertRegex`."""
        self.assertRegex(*args, **kwargs)

    def assertNotRegexpMatches(self, *args: Any, **kwargs: Any) -> None:
        """`assertNotRegex`."""
        self.assertNotRegex(*args, **kwargs)

    def assertEquals(self, *args: Any, **kwargs: Any) -> None:
        """`assertEqual`."""
        self.assertEqual(*args, **kwargs)

    def assertNotEquals(self, *args: Any, **kwargs: Any) -> None:
        """`assertNotEqual`."""
        self.assertNotEqual(*args, **kwargs)

    def assertAlmostEquals(self, *args: Any, **kwargs: Any) -> None:
        """`assertAlmostEqual`."""
        self.assertAlmostEqual(*args, **kwargs)

    def assertNotAlmostEquals(self, *args: Any, **kwargs: Any) -> None:
        """`assertNotAlmostEqual`."""
        self.assertNotAlmostEqual(*args, **kwargs)

    def assertItemsEqual(self, *args: Any, **kwargs: Any) -> None:
        """`assertCountEqual`."""
        self.assertCountEqual(*args, **kwargs)

    def assertDictContainsSubset(
        self, subset: Mapping[Any, Any], dictionary: Mapping[Any, Any], msg: Any = None
    ) -> None:
        """Passes when every entry of `subset` is in `dictionary`."""
        self.assertEqual({**dictionary, **subset}, dictionary, msg)

    def assert_(self, expr: Any, msg: Any = None) -> None:
        """`assertTrue`."""
        self.assertTrue(expr, msg)

    def _create_session(
        self, graph: Graph | None, config: ConfigProto | None, force_gpu: bool
    ) -> Session:
        options = ConfigProto()
        if config is None:
            options.allow_soft_placement = not force_gpu
        else:
            options.CopyFrom(config)
        return Session(graph=graph, config=options)

    def _get_cached_session(
        self, graph: Graph | None, config: ConfigProto | None, force_gpu: bool, check: bool
    ) -> Session:
        asked = (graph, config, force_gpu)
        if self._cached_session is None:
            self._cached_session = self._create_session(graph, config, force_gpu)
            self._cached_for = asked
        elif check:
            for what, before, now in zip(
                ("graph", "config", "force_gpu value"), self._cached_for, asked, strict=True
            ):
                if before is not now and before != now:
                    raise ValueError(
                        f"The {what} used to get the cached session is different than the one "
                        "that was used to create the session. Maybe create a new session with "
                        "self.session()"
                    )
        return self._cached_session

    def _take_default_graphs(self) -> None:
        """Sets aside the graphs that whoever runs the test has open, so that it may reset its own.

        A test whose `tearDown` does not call ours leaves its graph as the default.
        """
        outer = []
        while (graph := default_graphs.top()) is not None:
            default_graphs.remove(graph)
            outer.append(graph)
        if self._outer_graphs is None:
            self._outer_graphs = outer[::-1]
            self._outer_implicit = default_graphs.implicit
        default_graphs.implicit = None

    def _give_default_graphs_back(self) -> None:
        outer, self._outer_graphs = self._outer_graphs, None
        if outer is not None:
            default_graphs.clear()
            default_graphs.implicit = self._outer_implicit
            for graph in outer:
                default_graphs.push(graph)

    def _close_cached_session(self) -> None:
        session, self._cached_session = self._cached_session, None
        if session is not None:
            session.close()


class CheckedThread:
    """A thread that keeps the exception of its target for whoever joins it."""

    def __init__(
        self,
        case: absltest.TestCase,
        target: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> None:
        self._case = case
        self._target, self._args, self._kwargs = target, args, kwargs
        self._thread = threading.Thread(target=self._protected_run)
        self._error: BaseException | None = None
        self._joined = False

    def start(self) -> None:
        """Starts it."""
        self._thread.start()

    def join(self) -> None:
        """Waits for it to end; fails the test with what it raised."""
        self._joined = True
        self._thread.join()
        if self._error is not None:
            self._case.fail(f"Error in checkedThread: {self._error}")

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._thread.is_alive()

    def check_termination(self) -> None:
        """Fails the test if the thread runs on, or was never joined."""
        if not self._joined:
            self._case.fail(
                "A checked thread was not joined."
                if not self._thread.is_alive()
                else "A checked thread was not terminated."
            )

    def _protected_run(self) -> None:
        try:
            self._target(*self._args, **self._kwargs)
        except Exception as error:
            self._error = error


def get_temp_dir() -> str:
    """A folder for the files of tests: `$TEST_TMPDIR`, else one in the system's temporary folder.

    Nothing removes what is put there.
    """
    folder = os.environ.get("TEST_TMPDIR") or os.path.join(tempfile.gettempdir(), "absl_testing")
    os.makedirs(folder, exist_ok=True)
    return folder


@contextlib.contextmanager
def _as_default(session: Session, use_gpu: bool, force_gpu: bool) -> Iterator[Session]:
    device = "/device:GPU:0" if force_gpu else (None if use_gpu else "/device:CPU:0")
    with session.graph.as_default(), session.as_default():
        if device is None:
            yield session
            return
        with session.graph.device(device):
            yield session


def _text_of(error: BaseException) -> str:
    if not isinstance(error, OpError):
        return str(error)
    text, op = error.message, error.op
    while op is not None:
        text += f"\nCaused by: {op.name}"
        op = getattr(op, "_original_op", None)
    return text


def _is_eager(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_is_eager, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_is_eager, value))
    return callable(getattr(value, "numpy", None))


def _eager_values(value: Any) -> Any:
    if isinstance(value, Mapping):
        return type(value)((key, _eager_values(each)) for key, each in value.items())  # type: ignore[call-arg]  # any class of dictionaries
    if isinstance(value, list | tuple):
        parts = [_eager_values(each) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value.numpy() if callable(getattr(value, "numpy", None)) else value
