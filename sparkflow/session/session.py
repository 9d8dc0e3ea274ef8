"""`Session`: runs parts of a graph on a master, in this process or behind `grpc://`."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sparkflow._api import export
from sparkflow.graph.default_stack import sessions
from sparkflow.graph.graph import Graph
from sparkflow.graph.scopes import get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow.session.feeds import Expand, FeedSlot, feed_tensor, resolve
from sparkflow.session.fetches import Fetches, key_of
from sparkflow.session.handles import is_kept
from sparkflow.session_defaults import default_config
from sparkflow_runtime.errors import CancelledError, InvalidArgumentError, OpError
from sparkflow_runtime.master.client import SessionClient, open_session

if TYPE_CHECKING:
    from sparkflow.session.device_description import DeviceDescription
    from sparkflow.session.loops import StepLoop
    from sparkflow_runtime.protos.config_pb2 import ConfigProto, RunMetadata, RunOptions
    from sparkflow_runtime.security import Credentials

_NODE_IN_TEXT = re.compile(r"\[\[node '?(?P<name>[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*)'?")
_NOTHING_FED: Mapping[Any, Any] = {}
_MOST_PLANS = 1000
"""How many different (fetches, feeds) a session remembers before it starts anew."""


def _require_config(config: object) -> None:
    from sparkflow_runtime.protos.config_pb2 import ConfigProto

    if not isinstance(config, ConfigProto):
        raise TypeError(f"config must be a tf.ConfigProto, but got {type(config)}")


class _Plan:
    """One way of running: what is fetched and fed, and the runtime's callable.

    Attributes:
        tensors: The names of the tensors fetched.
        targets: The names of the operations run only.
        fill: Makes the result from the tensors' values.
        feeds: The names of the tensors fed.
        arrays: Per fed tensor the function that converts and checks a value.
        expand: How to get the values from a feed_dict, None for its values as they are.
        call: From arrays to the tensors' values.
    """

    __slots__ = ("arrays", "call", "expand", "feeds", "fill", "targets", "tensors")

    def __init__(self, fetches: Fetches, slots: Sequence[FeedSlot], expand: Expand | None) -> None:
        self.tensors = [tensor.name for tensor in fetches.tensors]
        self.targets = [op.name for op in fetches.targets]
        self.fill = fetches.fill
        self.feeds = [slot.name for slot in slots]
        self.arrays = [slot.array for slot in slots]
        self.expand = expand
        self.call: Callable[..., list[Any]]


class RunWatch(Protocol):
    """Receives notice of a session's runs; see `train.sessions.late_runs.LateRuns`."""

    def begin(self) -> object:
        """A run begins; what `end` is to be given."""

    def end(self, run: object) -> None:
        """A run has ended."""

    def raise_cause(self) -> None:
        """A run has failed; raises what is the cause of that, where it knows one."""

    def stop(self) -> None:
        """The session is closed."""


@export("python.client.session.BaseSession")
class BaseSession:
    """Base of `Session` and `InteractiveSession`.

    Sessions may be used from several threads at once. `_lock` guards `_sent`, the number of nodes
    the master has, and `_plans`.

    Args:
        target: "" for this process, or `grpc://host:port` of any server.
        graph: The graph to run; the default graph when None.
        config: Placement options.
        credentials: The token the server asks for, or `Credentials` where it uses TLS.
        create_timeout_s: The longest wait for the server and the tasks of its cluster.
    """

    def __init__(
        self,
        target: str | bytes = "",
        graph: Graph | None = None,
        config: ConfigProto | None = None,
        credentials: str | Credentials | None = None,
        create_timeout_s: float | None = None,
    ) -> None:
        if not isinstance(target, str | bytes):
            raise TypeError(f"target must be a string, but got {type(target)}")
        if graph is not None and not isinstance(graph, Graph):
            raise TypeError(f"graph must be a tf.Graph, but got {type(graph)}")
        if config is not None:
            _require_config(config)
        self._graph = get_default_graph() if graph is None else graph
        self._target = target.decode() if isinstance(target, bytes) else target
        self._config = config
        self._lock = threading.Lock()
        self._sent = 0
        self._plans: dict[Any, _Plan] = {}
        self._client: SessionClient | None = None
        self._watch: RunWatch | None = None
        chosen = default_config() if config is None else config
        client = open_session(
            self._target,
            config=chosen,
            credentials=credentials,
            create_timeout_s=create_timeout_s,
        )
        self._client = client

    @property
    def graph(self) -> Graph:
        """The graph it runs."""
        return self._graph

    @property
    def graph_def(self) -> Any:
        """The graph as a message."""
        return self._graph.as_graph_def()

    @property
    def sess_str(self) -> str:
        """The target."""
        return self._target

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: RunOptions | None = None,
        run_metadata: RunMetadata | None = None,
    ) -> Any:
        """Runs what the fetches need, once, and returns their values. Blocks until done.

        Args:
            fetches: A tensor, operation, variable or name, or lists, tuples, named tuples and
                dictionaries of those, however nested.
            feed_dict: Values by tensor; any tensor can be overridden.
            options: Tracing and deadlines.
            run_metadata: Filled with what was recorded.

        Returns:
            Values in the structure of `fetches`: numpy arrays and scalars, None for operations.

        Raises:
            RuntimeError: The session is closed, or the graph has no operations.
            TypeError, ValueError: A fetch or feed does not fit the graph.
            OpError: A subclass, for what failed while running.
        """
        plan, arrays = self._prepare(fetches, feed_dict)
        watch = self._watch
        run = None if watch is None else watch.begin()
        try:
            if options is None and run_metadata is None:
                return plan.fill(plan.call(*arrays))
            return plan.fill(self._run_recorded(plan, arrays, options, run_metadata))
        except OpError as error:
            if watch is not None:
                watch.raise_cause()
            raise self._located(error) from error.__cause__
        finally:
            if watch is not None:
                watch.end(run)

    def _watch_runs(self, watch: RunWatch) -> None:
        """Has every `run` told to a watch from now on, which may close the session."""
        self._watch = watch

    def _prepare(
        self, fetches: Any, feed_dict: Mapping[Any, Any] | None
    ) -> tuple[_Plan, list[np.ndarray[Any, Any]]]:
        """How to run this, and the arrays that are fed."""
        if feed_dict is None:
            feed_dict = _NOTHING_FED
        elif type(feed_dict) is not dict and not isinstance(feed_dict, Mapping):
            raise TypeError(f"feed_dict must map tensors to values, got {feed_dict!r}")
        try:
            key = (key_of(fetches), *feed_dict)
            plan = self._plans.get(key)
        except TypeError:  # not hashable: normalise it to learn what is wrong with it
            key, plan = None, None
        if plan is None:
            plan = self._make_plan(fetches, *resolve(self._graph, feed_dict))
            if key is not None:
                self._remember(key, plan)
        values: Any = feed_dict.values() if plan.expand is None else plan.expand(feed_dict)
        arrays = [array(value) for array, value in zip(plan.arrays, values, strict=True)]
        return plan, arrays

    def _remember(self, key: Any, plan: _Plan) -> None:
        with self._lock:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[key] = plan

    def _make_plan(
        self,
        fetches: Any,
        tensors: Sequence[Tensor],
        expand: Expand | None,
        repeats: bool = False,
    ) -> _Plan:
        client = self._open_client()
        self._require_nodes()
        plan = _Plan(
            Fetches(self._graph, fetches, self), [FeedSlot(tensor) for tensor in tensors], expand
        )
        self._extend(client)
        try:
            if repeats and not plan.tensors:
                plan.call = client.make_repeated(plan.targets)
            else:
                plan.call = client.make_callable(plan.tensors, plan.feeds, plan.targets)
        except OpError as error:
            raise self._located(error) from error.__cause__
        return plan

    def _run_recorded(
        self,
        plan: _Plan,
        arrays: Sequence[Any],
        options: RunOptions | None,
        run_metadata: RunMetadata | None,
    ) -> list[Any]:
        from sparkflow_runtime.protos.config_pb2 import RunOptions

        feeds = dict(zip(plan.feeds, arrays, strict=True))
        values, recorded = self._open_client().run(
            plan.tensors, feeds, plan.targets, options or RunOptions()
        )
        if run_metadata is not None and recorded is not None:
            run_metadata.CopyFrom(recorded)
        return values

    def make_callable(
        self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False
    ) -> Callable[..., Any]:
        """A function that runs `fetches`, fed by position.

        Args:
            fetches: As for `run`.
            feed_list: The tensors to feed, in the order of the function's arguments.
            accept_options: Give the function the keywords `options` and `run_metadata`.

        Raises:
            TypeError: `feed_list` is not a list.
            Else as `run`. The function raises CancelledError when the session is closed, and
            InvalidArgumentError for another number of values.
        """
        if feed_list is not None and not isinstance(feed_list, list | tuple):
            raise TypeError("Argument `feed_list` must be a list or tuple.")
        tensors = [feed_tensor(self._graph, each) for each in feed_list or ()]
        run_once = self._checked(self._make_plan(fetches, tensors, None))

        def run_with_options(
            *values: Any,
            options: RunOptions | None = None,
            run_metadata: RunMetadata | None = None,
        ) -> Any:
            return self.run(fetches, dict(zip(tensors, values, strict=True)), options, run_metadata)

        return run_with_options if accept_options else run_once

    def _make_repeated(self, op: Any) -> Callable[[], object]:
        """A function that runs an operation until it fails, but returns now and then.

        Raises as `run`, and the function as one of `make_callable`.
        """
        return self._checked(self._make_plan(op, (), None, repeats=True))

    def _checked(self, plan: _Plan) -> Callable[..., Any]:
        """A function of values to be fed, which are checked, to what a plan fetches."""
        call, fill, arrays = plan.call, plan.fill, plan.arrays

        def run_once(*values: Any) -> Any:
            if self._client is None:
                raise CancelledError(message="Session has been closed.")
            if len(values) != len(arrays):
                raise InvalidArgumentError(
                    message=f"The callable takes {len(arrays)} values, got {len(values)}"
                )
            try:
                found = call(*[array(value) for array, value in zip(arrays, values, strict=True)])
                return fill(found)
            except OpError as error:
                raise self._located(error) from error.__cause__

        return run_once

    def _start_loop(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None,
        num_steps: int | None,
        first_step: int,
        bounds: Mapping[Any, float],
    ) -> StepLoop:
        """Starts a step loop, see `train.start_loop`; bounds are by fetched tensor.

        Raises:
            ValueError: A bound is for something that is not fetched, or a handle is fetched.
            Else as `run`.
        """
        from sparkflow.session.loops import StepLoop
        from sparkflow_runtime.worker.loop import LoopTerms

        plan, arrays = self._prepare(fetches, feed_dict)
        for name in plan.tensors:
            if is_kept(self._graph.get_tensor_by_name(name)):
                raise ValueError(f"A loop cannot fetch {name}: it would keep a value per step")
        places: dict[int, float] = {}
        for key, bound in bounds.items():
            tensor = self._graph.as_graph_element(key, allow_operation=False)
            if tensor.name not in plan.tensors:
                raise ValueError(f"{tensor.name} has a bound, but is not fetched")
            place = plan.tensors.index(tensor.name)
            places[place] = min(bound, places.get(place, bound))
        feeds = dict(zip(plan.feeds, arrays, strict=True))
        terms = LoopTerms(num_steps, first_step, places)
        try:
            loop = self._open_client().start_loop(plan.tensors, feeds, plan.targets, terms)
        except OpError as error:
            raise self._located(error) from error.__cause__
        return StepLoop(loop, plan.fill, self._located)

    def partial_run_setup(self, fetches: Any, feeds: Sequence[Any] | None = None) -> str:
        """Announces a step that is run in several calls.

        Args:
            fetches: All that will be fetched, and the operations that will run, as for `run`.
            feeds: The tensors that will be fed.

        Returns:
            A handle for `partial_run`.

        Raises:
            TypeError, ValueError: A fetch or feed does not fit the graph.
            InvalidArgumentError: Nothing is fetched or run.
        """
        client = self._open_client()
        self._extend(client)
        found = Fetches(self._graph, fetches, self)
        tensors = [feed_tensor(self._graph, each) for each in feeds or ()]
        try:
            return client.partial_run_setup(
                [tensor.name for tensor in found.tensors],
                [tensor.name for tensor in tensors],
                [op.name for op in found.targets],
            )
        except OpError as error:
            raise self._located(error) from error.__cause__

    def partial_run(
        self, handle: str, fetches: Any, feed_dict: Mapping[Any, Any] | None = None
    ) -> Any:
        """One call of a partial run: every tensor is fed once and fetched once.

        What the feeds of this and earlier calls allow is computed, each node once.

        Args:
            handle: From `partial_run_setup`.
            fetches: Some of the tensors announced, in any structure.
            feed_dict: Values for some of the feeds announced.

        Raises:
            RuntimeError: An operation is among the fetches, or the session is closed.
            InvalidArgumentError: A tensor was not announced, was fed or fetched before, or cannot
                be computed yet.
            Else as `run`.
        """
        client = self._open_client()
        found = Fetches(self._graph, fetches, self)
        if found.targets:
            raise RuntimeError("partial_run() requires empty target_list.")
        given = feed_dict or {}
        tensors, expand = resolve(self._graph, given)
        values = given.values() if expand is None else expand(given)
        slots = [FeedSlot(tensor) for tensor in tensors]
        feeds = {slot.name: slot.array(v) for slot, v in zip(slots, values, strict=True)}
        try:
            return found.fill(
                client.partial_run(handle, [tensor.name for tensor in found.tensors], feeds)
            )
        except OpError as error:
            raise self._located(error) from error.__cause__

    def list_devices(self) -> list[DeviceDescription]:
        """The devices the session may use."""
        from sparkflow.session.device_description import DeviceDescription

        return [DeviceDescription.of(each) for each in self._open_client().list_devices()]

    def close(self) -> None:
        """Ends the session; may be called again."""
        client, self._client = self._client, None
        self._plans = {}
        if self._watch is not None:
            self._watch.stop()
        if client is not None:
            client.close()

    def as_default(self) -> AbstractContextManager[Any]:
        """Makes this the default session of the thread inside a `with` block."""
        return sessions.entered(self)

    def _open_client(self) -> SessionClient:
        if self._client is None:
            raise RuntimeError("Attempted to use a closed Session.")
        return self._client

    def _require_nodes(self) -> None:
        if not self._graph.version:
            raise RuntimeError(
                "The Session graph is empty. Add operations to the graph before calling run()."
            )

    def _extend(self, client: SessionClient) -> None:
        """Sends the nodes made since the last time."""
        self._require_nodes()
        with self._lock:
            if self._graph.version > self._sent:
                graph_def = self._graph.to_message(self._sent)
                client.extend(graph_def)
                self._sent += len(graph_def.node)

    def _located(self, error: OpError) -> OpError:
        """The error with the operation that its text names, where it is in the graph."""
        if error.op is None:
            match = _NODE_IN_TEXT.search(error.message)
            if match is not None:
                try:
                    error.op = self._graph.get_operation_by_name(match["name"])
                    error.node_def = error.op.node_def
                except (KeyError, ValueError):
                    pass  # a node the master added: the text says all there is
        return error

    def __del__(self) -> None:
        # A session that nobody closed must not keep its master's threads and connection. Nobody is
        # left to hear of a failure. At the end of the interpreter gRPC no longer answers.
        if getattr(self, "_client", None) is not None and not sys.is_finalizing():
            with suppress(Exception):
                self.close()


@export("Session", "python.client.session.Session")
class Session(BaseSession):
    """Runs operations of a graph.

    As a context manager it is the default session, its graph the default graph, and it is closed at
    the end of the block.

    Args:
        target: "" for this process, or `grpc://host:port` of any server.
        graph: The graph to run; the default graph when None.
        config: Placement options.
        credentials: The token the server asks for, or `Credentials` where it uses TLS.
        create_timeout_s: How long to wait for the server at `target` and for the tasks of its
            cluster; when None, the operation timeout of `config`, and without that for ever.

    Raises:
        DeadlineExceededError: They did not start in time.
    """

    def __init__(
        self,
        target: str = "",
        graph: Graph | None = None,
        config: ConfigProto | None = None,
        credentials: str | Credentials | None = None,
        create_timeout_s: float | None = None,
    ) -> None:
        super().__init__(target, graph, config, credentials, create_timeout_s)
        self._entered: ExitStack | None = None

    def __enter__(self) -> Session:
        """Makes this the default session, and its graph the default graph.

        Raises:
            RuntimeError: It was entered already, and has not been left.
        """
        if self._entered is not None:
            raise RuntimeError(
                "Session context managers are not re-entrant. Use `Session.as_default()` if you "
                "want to enter a session multiple times."
            )
        stack = ExitStack()
        stack.enter_context(self._graph.as_default())
        stack.enter_context(self.as_default())
        self._entered = stack
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        entered, self._entered = self._entered, None
        if entered is not None:
            entered.__exit__(kind, value, traceback)
        self.close()

    @staticmethod
    def reset(target: str, containers: Sequence[str] | None = None, config: Any = None) -> None:
        """Drops the variables of these containers at `target`; of all when None."""
        client = open_session(target, config=config)
        try:
            client.reset(list(containers or ()))
        finally:
            client.close()


@export("InteractiveSession", "python.client.session.InteractiveSession")
class InteractiveSession(BaseSession):
    """A session that is the default one from its making until it is closed, for shells.

    Args:
        target, graph, config, credentials: As for `Session`.
    """

    def __init__(
        self,
        target: str = "",
        graph: Graph | None = None,
        config: ConfigProto | None = None,
        credentials: str | Credentials | None = None,
    ) -> None:
        super().__init__(target, graph, config, credentials)
        sessions.push(self)
        self._default_graph: ExitStack | None = None
        if graph is not None:
            self._default_graph = ExitStack()
            self._default_graph.enter_context(graph.as_default())

    def close(self) -> None:
        """Ends the session and stops being the default one."""
        sessions.remove(self)
        graph, self._default_graph = getattr(self, "_default_graph", None), None
        if graph is not None:
            graph.close()
        super().close()
