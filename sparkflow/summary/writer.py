"""`FileWriter`: event files that TensorBoard shows; and a cache of one writer per directory."""

from __future__ import annotations

import os
import threading
import time
import warnings
import weakref
from types import TracebackType
from typing import Any, ClassVar

from sparkflow._api import export
from sparkflow.graph.graph import Graph
from sparkflow.graph.messages.meta_graph import make_meta_graph
from sparkflow.graph.scopes import get_default_graph
from sparkflow.summary.queue_writer import QueuedEventWriter
from sparkflow_runtime.errors import FailedPreconditionError
from sparkflow_runtime.files.errors import kind_of
from sparkflow_runtime.protos.config_pb2 import RunMetadata
from sparkflow_runtime.protos.event_pb2 import Event, SessionLog, TaggedRunMetadata
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.meta_graph_pb2 import MetaGraphDef
from sparkflow_runtime.protos.summary_pb2 import Summary


class FileWriter:
    """Writes summaries, graphs and run metadata to a new event file of a directory.

    Events are written by a thread of the writer's own, so that adding one does not block. What was
    added is in the file after `flush` or `close`, after `flush_secs` seconds at the latest, and
    when the writer is forgotten or the program ends. Safe to use from several threads.

    Args:
        logdir: The directory; made if it does not exist.
        graph: A graph to write down at once.
        max_queue: Adding waits while so many events are not written yet.
        flush_secs: Seconds between flushes.
        graph_def: Deprecated: a GraphDef to write down at once.
        filename_suffix: The end of the file's name.
        session: Accepted; the file is always written by this process.

    Raises:
        FailedPreconditionError: `logdir` is a file.
        OpError: The directory or the file cannot be made for another reason.
        TypeError: `graph` is no graph.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        graph: Graph | GraphDef | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: GraphDef | None = None,
        filename_suffix: str | None = None,
        session: Any = None,
    ) -> None:
        self._logdir = logdir
        self._settings = (os.fspath(logdir), max_queue, float(flush_secs), filename_suffix or "")
        self._seen_tags: set[str] = set()
        self._seen_runs: set[str] = set()
        self._closed = False
        self._open()
        if graph is not None or graph_def is not None:
            self.add_graph(graph, graph_def=graph_def)
            if isinstance(graph, Graph):
                self.add_meta_graph(make_meta_graph(graph))

    def _open(self) -> None:
        folder = self._settings[0]
        try:
            self._writer = QueuedEventWriter(*self._settings)
        except OSError as error:
            kind = FailedPreconditionError if isinstance(error, FileExistsError) else kind_of(error)
            reason = "it is not a directory" if isinstance(error, FileExistsError) else error
            raise kind(message=f"No event file can be made in {folder}: {reason}") from error
        # Also at the end of the program, as a program that never closes its writer expects.
        self._finalizer = weakref.finalize(self, self._writer.close)

    def get_logdir(self) -> Any:
        """The directory, as it was given."""
        return self._logdir

    def add_summary(self, summary: Summary | bytes, global_step: Any = None) -> None:
        """Adds the value of a summary.

        Args:
            summary: A serialised `Summary`, as a run gives it, or the message.
            global_step: The step it is shown at.

        Raises:
            DecodeError: The bytes are no summary.
        """
        if isinstance(summary, bytes):
            message = Summary.FromString(summary)
        else:
            message = Summary()
            message.CopyFrom(summary)
        for value in message.value:
            if not value.HasField("metadata"):
                continue
            # TensorBoard needs the metadata of a tag once.
            if value.tag in self._seen_tags:
                value.ClearField("metadata")
            else:
                self._seen_tags.add(value.tag)
        self._add(Event(summary=message), global_step)

    def add_session_log(self, session_log: SessionLog, global_step: Any = None) -> None:
        """Adds a note that a session started, stopped or wrote a checkpoint."""
        self._add(Event(session_log=session_log), global_step)

    def add_graph(
        self,
        graph: Graph | GraphDef | None,
        global_step: Any = None,
        graph_def: GraphDef | None = None,
    ) -> None:
        """Adds a graph.

        Args:
            graph: The graph, with whose static shapes it is written.
            global_step: The step it is shown at.
            graph_def: Deprecated: a GraphDef in place of `graph`.

        Raises:
            ValueError: Both are given, or neither.
            TypeError: `graph` is no graph.
        """
        if graph is not None and graph_def is not None:
            raise ValueError("Please pass only graph, or graph_def (deprecated), but not both.")
        if isinstance(graph, Graph):
            graph_def = graph.as_graph_def(add_shapes=True)
        elif isinstance(graph, GraphDef):
            graph_def = graph
        elif graph is not None:
            raise TypeError(
                "The passed graph must be an instance of `Graph` or the deprecated `GraphDef`"
            )
        if graph_def is None:
            raise ValueError("Please pass a graph to add_graph.")
        self._add(Event(graph_def=graph_def.SerializeToString()), global_step)

    def add_meta_graph(self, meta_graph_def: MetaGraphDef, global_step: Any = None) -> None:
        """Adds a MetaGraphDef.

        Raises:
            TypeError: It is something else.
        """
        if not isinstance(meta_graph_def, MetaGraphDef):
            raise TypeError(
                f"meta_graph_def must be type MetaGraphDef, saw type: {type(meta_graph_def)}"
            )
        self._add(Event(meta_graph_def=meta_graph_def.SerializeToString()), global_step)

    def add_run_metadata(
        self, run_metadata: RunMetadata, tag: str, global_step: Any = None
    ) -> None:
        """Adds what a run recorded.

        Args:
            run_metadata: From `Session.run`.
            tag: What TensorBoard lists it as; each once.
            global_step: The step it is shown at.

        Raises:
            ValueError: The tag was used before.
        """
        if tag in self._seen_runs:
            raise ValueError("The provided tag was already used for this event type")
        self._seen_runs.add(tag)
        tagged = TaggedRunMetadata(tag=tag, run_metadata=run_metadata.SerializeToString())
        self._add(Event(tagged_run_metadata=tagged), global_step)

    def add_event(self, event: Event) -> None:
        """Adds an event as it is."""
        self._warn_if_closed()
        self._writer.add(event)

    def flush(self) -> None:
        """Waits until everything added so far is in the file."""
        self._warn_if_closed()
        self._writer.flush()

    def close(self) -> None:
        """Writes everything and ends the thread; may be called again."""
        self._closed = True
        self._finalizer()

    def reopen(self) -> None:
        """Goes on after `close`, in a new file of the directory; nothing while open."""
        if self._closed:
            self._open()
            self._closed = False

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _add(self, event: Event, global_step: Any) -> None:
        event.wall_time = time.time()
        if global_step is not None:
            event.step = int(global_step)
        self.add_event(event)

    def _warn_if_closed(self) -> None:
        if self._closed:
            warnings.warn(
                "Attempting to use a closed FileWriter. The operation will be a noop unless the "
                "FileWriter is explicitly reopened.",
                stacklevel=4,
            )


@export("train.SummaryWriter")
class SummaryWriter(FileWriter):
    """`FileWriter` under its name of TensorFlow 0.x, with the arguments of that time."""

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        graph: Graph | GraphDef | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: GraphDef | None = None,
    ) -> None:
        super().__init__(logdir, graph, max_queue, flush_secs, graph_def)


class FileWriterCache:
    """One shared writer per directory. Thread-safe."""

    _cache: ClassVar[dict[str, FileWriter]] = {}
    _lock: ClassVar[threading.RLock] = threading.RLock()

    @staticmethod
    def clear() -> None:
        """Closes the writers and forgets them."""
        with FileWriterCache._lock:
            for writer in FileWriterCache._cache.values():
                writer.close()
            FileWriterCache._cache.clear()

    @staticmethod
    def get(logdir: str) -> FileWriter:
        """The writer of a directory; made with the default graph on first use."""
        with FileWriterCache._lock:
            if logdir not in FileWriterCache._cache:
                FileWriterCache._cache[logdir] = FileWriter(logdir, graph=get_default_graph())
            return FileWriterCache._cache[logdir]
