"""PyPI's `sparkflow`, another project that installs into the folder of ours.

pip does not know that two distributions write the same files: whichever comes last has its
`__init__.py` there, and removing either takes that file from both.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from types import ModuleType
from typing import Final

from sparkflow.version import VERSION

FILE: Final = "HogwildSparkModel.py"
"""A module that only it has, in every release."""

REPAIR: Final = (
    "Repair it with: pip uninstall -y sparkflow; "
    "pip install --force-reinstall --no-deps sparkflow-ml"
)


def warn_of_its_files(folder: str) -> None:
    """Says that the other project's files are beside ours, which work until pip touches it.

    Args:
        folder: Where this package is.
    """
    warnings.warn(
        f"{folder} has files of PyPI's `sparkflow` too, another project than `sparkflow-ml`: when "
        f"pip upgrades or removes it, this package breaks. {REPAIR}",
        RuntimeWarning,
        stacklevel=3,
    )


def refuse_its_front_end(package: ModuleType) -> None:
    """Makes sure that `import sparkflow` imported ours.

    Args:
        package: What it imported.

    Raises:
        ImportError: The other project's `__init__.py` has taken the place of ours.
    """
    if getattr(package, "__version__", None) == VERSION:
        return
    folder = Path(__file__).parent
    raise ImportError(
        "PyPI's `sparkflow`, another project than `sparkflow-ml`, has overwritten files in "
        f"{folder}. {REPAIR}"
    )
