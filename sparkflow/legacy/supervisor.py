"""`Supervisor`: starts a model, saves it and writes its summaries in background threads.

`MonitoredTrainingSession` is the newer way to do the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final

from sparkflow import logging
from sparkflow._api import export
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.graph import Graph
from sparkflow.graph.scopes import get_default_graph
from sparkflow.legacy.supervisor_threads import (
    SVStepCounterThread,
    SVSummaryThread,
    SVTimerCheckpointThread,
)
from sparkflow.ops.control.ordering import group
from sparkflow.session.session import Session
from sparkflow.summary.summaries import merge_all
from sparkflow.summary.writer import FileWriter
from sparkflow.train.checkpoints.saver import Saver
from sparkflow.train.graph_files import meta_graph_of, write_graph
from sparkflow.train.sessions.coordinator import Coordinator, LooperThread
from sparkflow.train.sessions.late_runs import LateRuns
from sparkflow.train.sessions.session_manager import SessionManager
from sparkflow.train.step_counter import global_step as value_of_step
from sparkflow.variables.initialization import (
    global_variables,
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
)
from sparkflow_runtime.ops import registry
from sparkflow_runtime.protos.config_pb2 import ConfigProto, RunOptions
from sparkflow_runtime.protos.event_pb2 import SessionLog


@export("train.Supervisor")
class Supervisor:
    """Coordinates a training program: the chief initializes, saves and writes; workers wait.

    An argument with the value `USE_DEFAULT` becomes the first item of the graph's collection of
    that name, or is created; None disables it. The graph is finalized.

    Args:
        graph: The graph; None for the default graph.
        ready_op: Returns the names of uninitialized variables.
        ready_for_local_init_op: Like `ready_op`, run before `local_init_op`.
        is_chief: Whether this task is the chief.
        init_op: Initializes the model if there is no checkpoint.
        init_feed_dict: Values by tensor for `init_op`.
        local_init_op: Run in each new session.
        logdir: The chief's directory for checkpoints and events; None for none.
        summary_op: Returns the summaries to write.
        saver: Saves and restores.
        global_step: Counts the steps.
        save_summaries_secs: Seconds between two summaries; 0 for none.
        save_model_secs: Seconds between two checkpoints; 0 for none.
        recovery_wait_secs: Seconds between two checks whether the model is ready.
        stop_grace_secs: Seconds that threads may take to stop, and a run after one of them has
            failed.
        checkpoint_basename: The prefix of checkpoint names.
        session_manager: Creates the sessions.
        summary_writer: Writes events; one in `logdir` by default.
        init_fn: Called with the session after `init_op`.
        local_init_run_options: Options of the run of `local_init_op`.

    Raises:
        ValueError: This is not the chief and a variable has no device.
    """

    USE_DEFAULT: Final = 0

    def __init__(
        self,
        graph: Graph | None = None,
        ready_op: Any = USE_DEFAULT,
        ready_for_local_init_op: Any = USE_DEFAULT,
        is_chief: bool = True,
        init_op: Any = USE_DEFAULT,
        init_feed_dict: Any = None,
        local_init_op: Any = USE_DEFAULT,
        logdir: Any = None,
        summary_op: Any = USE_DEFAULT,
        saver: Any = USE_DEFAULT,
        global_step: Any = USE_DEFAULT,
        save_summaries_secs: float = 120,
        save_model_secs: float = 600,
        recovery_wait_secs: float = 30,
        stop_grace_secs: float = 120,
        checkpoint_basename: str = "model.ckpt",
        session_manager: SessionManager | None = None,
        summary_writer: Any = USE_DEFAULT,
        init_fn: Callable[[Any], Any] | None = None,
        local_init_run_options: RunOptions | None = None,
    ) -> None:
        self._graph = graph or get_default_graph()
        self._is_chief = is_chief
        self._init_feed_dict = init_feed_dict
        self._init_fn = init_fn
        self._stop_grace_secs = stop_grace_secs
        with self._graph.as_default():
            self._ready_op = self._chosen(
                ready_op, GraphKeys.READY_OP, report_uninitialized_variables
            )
            self._ready_for_local_init_op = self._chosen(
                ready_for_local_init_op, GraphKeys.READY_FOR_LOCAL_INIT_OP, _nothing
            )
            self._init_op = self._chosen(
                init_op, GraphKeys.INIT_OP, lambda: group(global_variables_initializer())
            )
            self._local_init_op = self._chosen(
                local_init_op, GraphKeys.LOCAL_INIT_OP, self._default_local_init_op
            )
            self._saver = self._chosen(
                saver, GraphKeys.SAVERS, lambda: Saver() if global_variables() else None
            )
            self._summary_op = self._chosen(summary_op, GraphKeys.SUMMARY_OP, merge_all)
            self._global_step = self._chosen(
                global_step, GraphKeys.GLOBAL_STEP, self._default_global_step
            )
            self._meta_graph_def = meta_graph_of(self._graph, self._saver)
        self._coord = Coordinator()
        self._logdir = logdir if is_chief else None
        self._save_summaries_secs = save_summaries_secs if is_chief else None
        self._save_model_secs = save_model_secs if is_chief else None
        self._save_path = os.path.join(self._logdir, checkpoint_basename) if self._logdir else None
        self._summary_writer: Any = None
        if is_chief and not _is_default(summary_writer):
            self._summary_writer = summary_writer
        elif self._logdir:
            self._summary_writer = FileWriter(self._logdir)
        self._graph_added_to_summary = False
        self._session_manager = session_manager or SessionManager(
            local_init_op=self._local_init_op,
            ready_op=self._ready_op,
            ready_for_local_init_op=self._ready_for_local_init_op,
            graph=self._graph,
            recovery_wait_secs=recovery_wait_secs,
            local_init_run_options=local_init_run_options,
        )
        self._verify_setup()
        self._graph.finalize()

    # ------------------------------------------------------------------ properties

    @property
    def is_chief(self) -> bool:
        """Whether this task is the chief."""
        return self._is_chief

    @property
    def session_manager(self) -> SessionManager:
        """Creates the sessions."""
        return self._session_manager

    @property
    def coord(self) -> Coordinator:
        """Coordinates the threads."""
        return self._coord

    @property
    def init_op(self) -> Any:
        """Initialises the model."""
        return self._init_op

    @property
    def init_feed_dict(self) -> Any:
        """Values by tensor for `init_op`."""
        return self._init_feed_dict

    @property
    def ready_op(self) -> Any:
        """The operation that returns the names of variables without a value."""
        return self._ready_op

    @property
    def ready_for_local_init_op(self) -> Any:
        """Like `ready_op`, but runs before the local init op."""
        return self._ready_for_local_init_op

    @property
    def logdir(self) -> Any:
        """The chief's directory."""
        return self._logdir

    @property
    def summary_writer(self) -> Any:
        """Writes events; None if nothing does."""
        return self._summary_writer

    @property
    def summary_op(self) -> Any:
        """The summaries to write."""
        return self._summary_op

    @property
    def save_summaries_secs(self) -> Any:
        """Seconds between two summaries."""
        return self._save_summaries_secs

    @property
    def global_step(self) -> Any:
        """Counts the steps; None if nothing does."""
        return self._global_step

    @property
    def saver(self) -> Any:
        """Saves and restores."""
        return self._saver

    @property
    def save_model_secs(self) -> Any:
        """Seconds between two checkpoints."""
        return self._save_model_secs

    @property
    def save_path(self) -> Any:
        """The prefix of checkpoint paths."""
        return self._save_path

    # ------------------------------------------------------------------ sessions

    @contextmanager
    def managed_session(
        self,
        master: str = "",
        config: ConfigProto | None = None,
        start_standard_services: bool = True,
        close_summary_writer: bool = True,
    ) -> Iterator[Session]:
        """Yields a session for a `with` block, at whose end its threads are stopped.

        Exceptions stop all threads; an OutOfRangeError (end of data) ends the block without an
        error.

        Args:
            master: The target of the session.
            config: The configuration of the session.
            start_standard_services: Whether to start queue runners and the threads that save and
                write.
            close_summary_writer: Whether to close the writer at the end.

        Raises:
            Exception: What a thread or the block raised, except OutOfRangeError.
        """
        session = None
        try:
            session = self.prepare_or_wait_for_session(
                master, config, start_standard_services=start_standard_services
            )
            yield session
        except Exception as error:
            self.request_stop(error)
        finally:
            try:
                # It raises the exception of the block or of a thread.
                self.stop(close_summary_writer=close_summary_writer)
            finally:
                # Ends waiting queue operations; errors no longer matter.
                if session is not None:
                    with suppress(Exception):
                        session.close()

    def prepare_or_wait_for_session(
        self,
        master: str = "",
        config: ConfigProto | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        start_standard_services: bool = True,
    ) -> Session:
        """Returns a session that is ready: the chief prepares it, others wait for it.

        Args:
            master: The target of the session.
            config: The configuration of the session.
            wait_for_checkpoint: Whether the chief waits for a checkpoint.
            max_wait_secs: The maximum wait, in seconds.
            start_standard_services: Whether to start queue runners and the threads that save and
                write.
        """
        self._coord.clear_stop()
        if self._summary_writer:
            self._summary_writer.reopen()
        if self._is_chief:
            session = self._session_manager.prepare_session(
                master,
                init_op=self.init_op,
                saver=self.saver,
                checkpoint_dir=self._logdir,
                wait_for_checkpoint=wait_for_checkpoint,
                max_wait_secs=max_wait_secs,
                config=config,
                init_feed_dict=self._init_feed_dict,
                init_fn=self._init_fn,
            )
            self._write_graph()
            if start_standard_services:
                self.start_standard_services(session)
        else:
            session = self._session_manager.wait_for_session(
                master, config=config, max_wait_secs=max_wait_secs
            )
        session._watch_runs(LateRuns(self._coord, self._stop_grace_secs, session.close))
        if start_standard_services:
            self.start_queue_runners(session)
        return session

    # ------------------------------------------------------------------ threads

    def start_standard_services(self, sess: Session) -> list[LooperThread] | None:
        """Starts the threads that save checkpoints and write summaries and rates.

        Raises:
            RuntimeError: This is not the chief.
        """
        if not self._is_chief:
            raise RuntimeError(
                "Only chief supervisor can start standard services. Because only chief "
                "supervisors can write events."
            )
        if not self._logdir:
            logging.warning("Standard services need a 'logdir' passed to the SessionManager")
            return None
        if self._global_step is not None and self._summary_writer:
            step = value_of_step(sess, self._global_step)
            self._summary_writer.add_session_log(SessionLog(status=SessionLog.START), step)
        threads: list[LooperThread] = []
        if self._save_summaries_secs and self._summary_writer:
            if self._summary_op is not None:
                threads.append(SVSummaryThread(self, sess))
            if self._global_step is not None:
                threads.append(SVStepCounterThread(self, sess))
        if self.saver and self._save_model_secs:
            threads.append(SVTimerCheckpointThread(self, sess))
        for thread in threads:
            thread.start()
        return threads

    def start_queue_runners(
        self, sess: Session, queue_runners: Sequence[Any] | None = None
    ) -> list[Any]:
        """Starts the threads of queue runners; None for all in the graph."""
        if queue_runners is None:
            queue_runners = self._graph.get_collection(GraphKeys.QUEUE_RUNNERS)
        threads: list[Any] = []
        for runner in queue_runners:
            threads.extend(runner.create_threads(sess, coord=self._coord, daemon=True, start=True))
        return threads

    def loop(
        self,
        timer_interval_secs: float | None,
        target: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
    ) -> LooperThread:
        """Starts a thread that calls a function repeatedly until the supervisor stops.

        Args:
            timer_interval_secs: Seconds between two calls; None for no pause.
            target: The function.
            args: Its arguments.
            kwargs: Its keyword arguments.
        """
        looper = LooperThread(
            self._coord, timer_interval_secs, target=target, args=args, kwargs=kwargs
        )
        looper.start()
        return looper

    def stop(
        self,
        threads: Sequence[Any] | None = None,
        close_summary_writer: bool = True,
        ignore_live_threads: bool = False,
    ) -> None:
        """Stops the threads and waits for them.

        Args:
            threads: More threads to wait for.
            close_summary_writer: Whether to close the writer.
            ignore_live_threads: Whether to ignore threads that do not stop in time.

        Raises:
            Exception: Raised by a thread, or passed to `request_stop`.
        """
        self._coord.request_stop()
        try:
            self._coord.join(
                threads,
                stop_grace_period_secs=self._stop_grace_secs,
                ignore_live_threads=ignore_live_threads,
            )
        finally:
            if close_summary_writer and self._summary_writer:
                self._summary_writer.add_session_log(SessionLog(status=SessionLog.STOP))
                self._summary_writer.close()
                self._graph_added_to_summary = False

    def request_stop(self, ex: Any = None) -> None:
        """Asks all threads to stop, because of `ex` if given."""
        self._coord.request_stop(ex)

    def should_stop(self) -> bool:
        """Whether the threads were asked to stop."""
        return self._coord.should_stop()

    def stop_on_exception(self) -> AbstractContextManager[Any]:
        """A context in which an exception asks the threads to stop."""
        return self._coord.stop_on_exception()

    def wait_for_stop(self) -> None:
        """Blocks until the threads are asked to stop."""
        self._coord.wait_for_stop()

    def summary_computed(self, sess: Any, summary: Any, global_step: Any = None) -> None:
        """Writes a computed summary.

        Args:
            sess: The session, in which the step is read if it is not given.
            summary: The summary, serialised.
            global_step: The step.

        Raises:
            RuntimeError: There is no writer.
        """
        if not self._summary_writer:
            raise RuntimeError("Writing a summary requires a summary writer.")
        if global_step is None and self.global_step is not None:
            global_step = value_of_step(sess, self.global_step)
        self._summary_writer.add_summary(summary, global_step)

    # The names of TensorFlow's first releases.
    PrepareSession = prepare_or_wait_for_session
    StartQueueRunners = start_queue_runners
    StartStandardServices = start_standard_services
    Stop = stop
    RequestStop = request_stop
    Loop = loop
    ShouldStop = should_stop
    StopOnException = stop_on_exception
    WaitForStop = wait_for_stop
    SummaryComputed = summary_computed

    # ------------------------------------------------------------------ private

    def _chosen(self, given: Any, key: str, make: Callable[[], Any]) -> Any:
        """Returns the given value, or the first item of a collection, or creates and adds one."""
        if not _is_default(given):
            return given
        found = self._graph.get_collection(key)
        if found:
            return found[0]
        made = make()
        if made is not None:
            self._graph.add_to_collection(key, made)
        return made

    def _default_local_init_op(self) -> Any:
        tables = self._graph.get_collection(GraphKeys.TABLE_INITIALIZERS)
        return group(local_variables_initializer(), *tables)

    def _default_global_step(self) -> Any:
        try:
            tensor = self._graph.get_tensor_by_name("global_step:0")
        except KeyError:
            return None
        if tensor.dtype.base.is_integer:
            return tensor
        logging.warning("Found 'global_step' is not an int type: %s", tensor.dtype)
        return None

    def _verify_setup(self) -> None:
        if self._is_chief:
            return
        for op in self._graph.get_operations():
            kind = registry.find(op.type)
            is_variable = kind.is_variable and kind.signature.gives_references
            if is_variable and not op.device:
                raise ValueError(
                    f"When using replicas, all Variables must have their device set: {op.name}"
                )

    def _write_graph(self) -> None:
        if self._logdir:
            write_graph(self._graph, self._logdir, "graph.pbtxt")
        if self._summary_writer and not self._graph_added_to_summary:
            self._summary_writer.add_graph(self._graph)
            self._summary_writer.add_meta_graph(self._meta_graph_def)
            self._graph_added_to_summary = True


def _is_default(given: Any) -> bool:
    return isinstance(given, int) and given == Supervisor.USE_DEFAULT


def _nothing() -> None:
    return None
