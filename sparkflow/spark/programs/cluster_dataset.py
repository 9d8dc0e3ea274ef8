"""The rows of a DataFrame on the workers of a cluster, as one `tf.data.Dataset` per worker."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from sparkflow._api.integers import as_integer
from sparkflow.data import sources, structure
from sparkflow.data.dataset import Dataset
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.feed_plan import PERMUTED, FeedPlan
from sparkflow.spark.data.hosted.dataset_spool import TravellingDataset
from sparkflow.spark.data.hosted.hosted_rows import FOR_EVER, HostedSource
from sparkflow.spark.data.plan.partitioning import deal_rows
from sparkflow.spark.data.plan.prepare import prepare_rows
from sparkflow.spark.data.plan.spooled import is_local, spooled_for_all
from sparkflow.spark.data.schema.row_format import DENSE, RowFormat
from sparkflow.spark.graphs.batch_tensors import joined
from sparkflow.spark.params.trainer_params import TrainerParams

Columns = str | Sequence[str] | Mapping[str, str | Sequence[str]]


class DatasetParams(TrainerParams):
    """The columns, and the handling of invalid values, in the form of a trainer's parameters."""

    def takes_labels(self) -> bool:
        """All columns are treated the same way."""
        return False


@dataclass(frozen=True, slots=True)
class Shares:
    """The properties of a dataset's rows, available in every process.

    Attributes:
        name: The name of the dataset.
        columns: The requested columns, which give the structure of batches.
        plan: The order of the rows and the batch size.
        worker_rows: The number of rows by worker.
        files: The files with the rows in a local session; None if the rows are sent to the tasks.
    """

    name: str
    columns: Columns
    plan: FeedPlan
    worker_rows: tuple[int, ...]
    files: Mapping[str, Any] | None


class ClusterDataset:
    """The rows of a DataFrame on the workers of a `SparkCluster`, assigned round-robin.

    `dataset[1]` is the share of worker 1: a `tf.data.Dataset` of batches, an op that has to be
    placed on that worker together with its iterator. Functions that `SparkCluster.run` runs receive
    the same object as an argument. `SparkCluster.dataset` creates it.

    Attributes:
        worker_rows: The number of rows by worker; the numbers differ by at most one.
    """

    def __init__(
        self, shares: Shares, rows: DataFrame | None, held: contextlib.ExitStack | None
    ) -> None:
        self._shares = shares
        self._rows = rows
        self._held = held

    @property
    def worker_rows(self) -> tuple[int, ...]:
        """See the class."""
        return self._shares.worker_rows

    @property
    def num_batches(self) -> tuple[int, ...]:
        """The number of batches of an epoch, by worker."""
        size = self._shares.plan.batch_size
        return tuple(-(-rows // size) for rows in self.worker_rows)

    def __len__(self) -> int:
        """The number of workers."""
        return len(self.worker_rows)

    def __getitem__(self, worker: int) -> Dataset:
        """Returns the batches of a worker, in the default graph.

        A batch has the structure of the requested columns. Place its iterator on the worker: `with
        tf.device("/job:worker/task:1"): dataset[1].make_one_shot_iterator()`.

        Raises:
            IndexError: The worker does not exist.
        """
        number = operator.index(worker)
        if not 0 <= number < len(self):
            raise IndexError(f"There is no worker {number}: there are {len(self)}, from 0")
        shares = self._shares
        source = HostedSource(shares.name, number, shares.plan, shares.files)
        return _dataset_op(source, shares.columns)

    def travelling(self) -> tuple[TravellingDataset, DataFrame] | None:
        """Returns the rows and their format, if they have to be sent to the tasks of a job.

        Raises:
            ValueError: The dataset was closed.
        """
        if self._held is None:
            raise ValueError(f"{self!r} was closed: its rows are gone")
        if self._rows is None:
            return None
        shares = self._shares
        what = TravellingDataset(shares.name, shares.plan.row_format, shares.worker_rows)
        return what, self._rows

    @property
    def is_closed(self) -> bool:
        """Whether its rows were released."""
        return self._held is None

    def close(self) -> None:
        """Releases the rows: files, and Spark's cache. May be called more than once."""
        held, self._held = self._held, None
        if held is not None:
            held.close()

    def __repr__(self) -> str:
        return f"<ClusterDataset {self._shares.name}: rows by worker {list(self.worker_rows)}>"

    def __getstate__(self) -> Shares:
        """Returns the state to pickle, and records the dataset, see `those_that_travel`."""
        found = _travelling.get()
        if found is not None:
            found.append(self)
        return self._shares

    def __setstate__(self, shares: Shares) -> None:
        self.__init__(shares, None, None)  # type: ignore[misc]


_travelling: ContextVar[list[ClusterDataset] | None] = ContextVar("travelling", default=None)


@contextlib.contextmanager
def those_that_travel() -> Iterator[list[ClusterDataset]]:
    """Collects the datasets that are pickled inside the `with` block, however deeply nested."""
    found: list[ClusterDataset] = []
    token = _travelling.set(found)
    try:
        yield found
    finally:
        _travelling.reset(token)


def make_dataset(
    name: str,
    df: DataFrame,
    columns: Columns,
    layout: ClusterLayout,
    plan: Callable[[RowFormat], FeedPlan],
    **params: Any,
) -> ClusterDataset:
    """Checks, selects and counts the rows, and in a local session writes them to files.

    Args:
        name: A unique name.
        df: The rows.
        columns: See `SparkCluster.dataset`.
        layout: The workers.
        plan: Returns the feed plan for a row format.
        **params: Parameters of a trainer, such as `handleInvalid`.

    Raises:
        ValueError, TypeError: See `prepare.prepare_rows`.
        ResourceExhaustedError: The disk is full.
    """
    asked = DatasetParams()
    asked.setParams(featuresCol=_by_name(columns), numWorkers=layout.num_workers, **params)
    config = asked.config()
    with contextlib.ExitStack() as stack:
        try:
            if is_local(df):
                spooled = stack.enter_context(spooled_for_all(df, config))
                row_format, rows = spooled.prepared.format, None
                files, worker_rows, _ = spooled.dealt(layout.num_workers)
            else:
                prepared = stack.enter_context(prepare_rows(df, config))
                row_format, rows = prepared.format, deal_rows(prepared, layout)
                files, worker_rows = None, layout.worker_rows(prepared.num_rows)
        except (ValueError, TypeError) as error:
            # The rules are those of the parameter of a trainer; here it has another name.
            raise type(error)(str(error).replace("featuresCol", "columns")) from error
        shares = Shares(name, columns, plan(row_format), tuple(worker_rows), files)
        return ClusterDataset(shares, rows, stack.pop_all())
    raise AssertionError("unreachable: an ExitStack without callbacks swallows nothing")


def feed_plan(
    batch_size: int, shuffle: bool, epochs: int | None, seed: int
) -> Callable[[RowFormat], FeedPlan]:
    """Returns how rows of a format are fed; `epochs` is None for endless repetition.

    Raises:
        ValueError: A number is too small.
        TypeError: It is not an integer.
    """
    rows = whole_number("batch_size", batch_size)
    times = FOR_EVER if epochs is None else whole_number("epochs", epochs)

    def plan(row_format: RowFormat) -> FeedPlan:
        return FeedPlan(
            row_format,
            batch_size=rows,
            epochs=times,
            order=PERMUTED,
            shuffle=bool(shuffle),
            seed=int(seed),
        )

    return plan


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """Returns an argument as an integer.

    Raises:
        ValueError: It is smaller than `least`.
        TypeError: It is not an integer.
    """
    number = as_integer(value)
    if number is None:
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if number < least:
        raise ValueError(f"{name} must be {least} or more, got {number}")
    return number


def _by_name(columns: Columns) -> dict[str, Any]:
    """Returns the columns by input name, in the order in which `nest` flattens the structure."""
    if isinstance(columns, str):
        return {columns: columns}
    if isinstance(columns, Mapping):
        if not columns or not all(isinstance(name, str) for name in columns):
            raise TypeError(f"columns must have names that are strings, got {dict(columns)!r}")
        return {name: columns[name] for name in sorted(columns)}
    names = list(columns)
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError(
            "columns must be a column, a list of columns, or a dictionary of columns (or of lists "
            f"of scalar columns) by name, got {columns!r}"
        )
    if len(set(names)) < len(names):
        raise ValueError(f"columns names a column twice: {names!r}")
    return {name: name for name in names}


def _dataset_op(source: HostedSource, columns: Columns) -> Dataset:
    row_format = source.plan.row_format
    parts = [
        [structure.Component(dtype, shape) for dtype, shape in each.components]
        for each in row_format.features
    ]
    if all(each.kind == DENSE for each in row_format.features):
        element = _packed(columns, [part for (part,) in parts])
        return _op(source, element)
    flat = _op(source, tuple(part for each in parts for part in each))

    def join(*components: Any) -> Any:
        rest = iter(components)
        return _packed(columns, [joined(each, rest) for each in row_format.features])

    return flat.map(join)


def _op(source: HostedSource, element: Any) -> Dataset:
    attrs = structure.attrs(element)
    return sources.dataset_of(
        "SparkflowHostedDataset", [], element, source=source.to_text(), **attrs
    )


def _packed(columns: Columns, values: Sequence[Any]) -> Any:
    if isinstance(columns, str):
        return values[0]
    if isinstance(columns, Mapping):
        return dict(zip(sorted(columns), values, strict=True))
    return tuple(values)
