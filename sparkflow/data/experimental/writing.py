"""Datasets written to files."""

from __future__ import annotations

from typing import Any

from sparkflow.data.dataset import Dataset
from sparkflow.graph.scopes import convert_to_tensor, get_default_graph
from sparkflow_runtime import dtypes


class TFRecordWriter:
    """Writes datasets of scalar strings as TFRecord files, on the task that runs the node.

    Args:
        filename: The path.
        compression_type: "", "GZIP" or "ZLIB".
    """

    def __init__(self, filename: Any, compression_type: Any = None) -> None:
        self._filename = convert_to_tensor(filename, dtypes.string, "filename")
        kind = "" if compression_type is None else compression_type
        self._compression_type = convert_to_tensor(kind, dtypes.string, "compression_type")

    def write(self, dataset: Dataset) -> Any:
        """Returns the operation that writes all elements.

        Raises:
            TypeError: `dataset` is not a dataset, or its elements are not scalar strings.
        """
        if not isinstance(dataset, Dataset):
            raise TypeError("`dataset` must be a `tf.data.Dataset` object.")
        if dataset.output_types is not dtypes.string:
            raise TypeError(
                "`dataset` must produce scalar `DT_STRING` tensors whereas it produces types "
                f"{dataset.output_types}"
            )
        inputs = [dataset._variant_tensor, self._filename, self._compression_type]
        return get_default_graph().add_node("DatasetToTFRecord", inputs)
