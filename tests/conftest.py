"""What all tests share: marks, skips without a GPU, examples that are the same in every run."""

import functools

import pytest
from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.load_profile("same")


@functools.cache
def _why_no_gpu() -> str | None:
    """Returns the reason why GPU tests cannot run here, or None where they can."""
    try:
        import cupy
    except ImportError:
        return "cupy is not installed (pip install 'sparkflow[gpu]')"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CUDA has no usable device: {error}"
    return None if count else "CUDA reports no device"


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by mark
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks every test that uses the `spark` fixture, so that none is forgotten by `-m`."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test marked `gpu` where no GPU can be used, and says why."""
    if item.get_closest_marker("gpu") is not None:
        reason = _why_no_gpu()
        if reason is not None:
            pytest.skip(reason)
