"""Methods of `tf.data.Dataset` that TensorFlow first had as functions of `tf.data.experimental`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sparkflow.data import nest, structure
from sparkflow.data.registered import registered
from sparkflow.graph.default_stack import sessions
from sparkflow.graph.scopes import get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import OutOfRangeError

if TYPE_CHECKING:
    from sparkflow.data.dataset import Dataset


class DatasetMethods:
    """Base of `Dataset`; every method returns another dataset unless stated otherwise.

    `name` is accepted everywhere for compatibility.
    """

    _variant_tensor: Tensor
    _structure: Any

    @property
    def element_spec(self) -> Any:
        """The type of the elements: nested `TensorSpec`, `SparseTensorSpec`, `RaggedTensorSpec`."""
        return nest.mapped(structure.spec_of, self._structure)

    def as_numpy_iterator(self, name: str | None = None) -> Iterator[Any]:
        """Returns the elements as arrays, in eager execution or with the default session.

        Raises:
            RuntimeError: There is neither eager execution nor a default session.
        """
        if get_default_graph().is_eager:
            return (nest.mapped(_as_array, each) for each in self)  # type: ignore[attr-defined]  # a Dataset
        session = sessions.top()
        if session is None:
            raise RuntimeError(
                "as_numpy_iterator() needs eager execution (tf.enable_eager_execution) or a "
                "default session (`with tf.Session():`)"
            )
        element = self.make_initializable_iterator()  # type: ignore[attr-defined]  # a Dataset
        following = element.get_next()
        session.run(element.initializer)
        return _until_the_end(session, following)

    def cardinality(self, name: str | None = None) -> Tensor:
        """Returns the number of elements, an int64 scalar: -1 if endless, -2 if unknown."""
        return registered("cardinality")(self)  # type: ignore[no-any-return]  # a Tensor

    def get_single_element(self, name: str | None = None) -> Any:
        """Returns the element of a dataset of one element."""
        return registered("get_single_element")(self)

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """Returns the elements before the first for which `predicate` is False."""
        return self._applied("take_while", predicate)

    def unique(self, name: str | None = None) -> Dataset:
        """Returns each distinct element once."""
        return self._applied("unique")

    def scan(
        self, initial_state: Any, scan_func: Callable[..., Any], name: str | None = None
    ) -> Dataset:
        """Returns the outputs of a function of an element and the state after the previous one.

        Args:
            initial_state: The first state.
            scan_func: Maps a state and an element to the next state and an output.
            name: Accepted.
        """
        return self._applied("scan", initial_state, scan_func)

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Dataset:
        """Returns the elements whose computation does not fail."""
        return self._applied("ignore_errors", log_warning)

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[..., Any],
        window_size: Any = None,
        window_size_func: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> Dataset:
        """See `tf.data.experimental.group_by_window`."""
        return self._applied(
            "group_by_window", key_func, reduce_func, window_size, window_size_func
        )

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Any,
        bucket_batch_sizes: Any,
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """See `tf.data.experimental.bucket_by_sequence_length`."""
        return self._applied(
            "bucket_by_sequence_length",
            element_length_func,
            bucket_boundaries,
            bucket_batch_sizes,
            padded_shapes,
            padding_values,
            pad_to_bucket_boundary,
            no_padding,
            drop_remainder,
        )

    def sparse_batch(self, batch_size: Any, row_shape: Any, name: str | None = None) -> Dataset:
        """See `tf.data.experimental.dense_to_sparse_batch`."""
        return self._applied("dense_to_sparse_batch", batch_size, row_shape)

    def rebatch(
        self, batch_size: Any, drop_remainder: bool = False, name: str | None = None
    ) -> Dataset:
        """Returns batches of another size.

        Args:
            batch_size: The number of rows per batch.
            drop_remainder: Whether to drop a last batch that is too short.
            name: Accepted.
        """
        rows: Dataset = self.unbatch()  # type: ignore[attr-defined]  # a Dataset
        return rows.batch(batch_size, drop_remainder)

    @staticmethod
    def random(
        seed: Any = None, rerandomize_each_iteration: Any = None, name: str | None = None
    ) -> Dataset:
        """Returns an endless dataset of random int64 numbers in [0, 2**32)."""
        return registered("RandomDataset")(seed)  # type: ignore[no-any-return]  # a Dataset

    @staticmethod
    def counter(
        start: Any = 0, step: Any = 1, dtype: Any = dtypes.int64, name: str | None = None
    ) -> Dataset:
        """Returns the endless dataset of `start`, `start + step`, ..."""
        return registered("Counter")(start, step, dtype)  # type: ignore[no-any-return]  # a Dataset

    @staticmethod
    def choose_from_datasets(
        datasets: Any, choice_dataset: Dataset, stop_on_empty_dataset: bool = True
    ) -> Dataset:
        """See `tf.data.experimental.choose_from_datasets`."""
        chosen = registered("choose_from_datasets")
        return chosen(datasets, choice_dataset, stop_on_empty_dataset)  # type: ignore[no-any-return]

    @staticmethod
    def sample_from_datasets(
        datasets: Any,
        weights: Any = None,
        seed: Any = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: Any = None,
    ) -> Dataset:
        """See `tf.data.experimental.sample_from_datasets`."""
        sampled = registered("sample_from_datasets")
        return sampled(datasets, weights, seed, stop_on_empty_dataset)  # type: ignore[no-any-return]

    def rejection_resample(
        self,
        class_func: Callable[..., Any],
        target_dist: Any,
        initial_dist: Any = None,
        seed: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Returns pairs of a class and an element, with classes distributed as in `target_dist`.

        Elements of classes that are too frequent are dropped at random.

        Args:
            class_func: Maps an element to its class, a scalar integer.
            target_dist: [classes] floating point.
            initial_dist: The distribution of classes in this dataset; None to estimate it from the
                elements so far.
            seed: A seed that makes the choices reproducible.
            name: Accepted.
        """
        return self._applied("rejection_resample", class_func, target_dist, initial_dist, seed)

    def _applied(self, name: str, *args: Any) -> Dataset:
        changed: Dataset = registered(name)(*args)(self)
        return changed


def _as_array(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else value


def _until_the_end(session: Any, following: Any) -> Iterator[Any]:
    while True:
        try:
            yield session.run(following)
        except OutOfRangeError:
            return
