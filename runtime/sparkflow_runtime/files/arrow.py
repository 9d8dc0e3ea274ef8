"""Checks that pyarrow, an optional dependency, is installed."""

from __future__ import annotations

from sparkflow_runtime.errors import require_package


def require_arrow() -> None:
    """Checks that pyarrow can be imported; to be called before importing it.

    Raises:
        ModuleNotFoundError: It is not installed; the text says how to install it.
    """
    require_package("Reading Parquet, Arrow and files behind URIs", "pyarrow", "arrow")
