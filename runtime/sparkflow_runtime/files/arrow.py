"""That pyarrow is there, which not every installation has."""

from __future__ import annotations

import importlib.util


def require_arrow() -> None:
    """Makes sure that pyarrow can be imported; call it before.

    Raises:
        ImportError: It is not installed; the text says how to install it.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise ImportError(
            "pyarrow is not installed, which reads Parquet, Arrow and files behind URIs: "
            "pip install 'sparkflow-ml[arrow]'"
        )
