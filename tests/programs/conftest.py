"""Keeps pytest, which looks for doctests, from importing the programs, which would run them."""

from pathlib import Path


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Skips every module that is not a test."""
    is_program = collection_path.suffix == ".py" and collection_path.stem[:5] not in (
        "test_",
        "conft",
    )
    return True if is_program else None
