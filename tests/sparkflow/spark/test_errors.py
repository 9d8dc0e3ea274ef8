"""An interrupt stays one, whatever py4j raises while it closes the connection."""

import pytest

from sparkflow.spark.errors import interrupts_kept


def _interrupted(after: BaseException) -> None:
    try:
        raise KeyboardInterrupt("by the user")
    except KeyboardInterrupt:
        raise after  # noqa: B904  # as py4j does


@interrupts_kept()
def _fit(error: BaseException, during_interrupt: bool) -> None:
    if during_interrupt:
        _interrupted(error)
    raise error


def test_the_interrupt_is_raised_instead_of_py4js_error() -> None:
    protocol = pytest.importorskip("py4j.protocol")
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt, match="by the user") as caught:
            _fit(protocol.Py4JError("Gateway must be connected to send cancel cmd."), True)
        assert isinstance(caught.value.__cause__, protocol.Py4JError)


def test_other_errors_stay() -> None:
    protocol = pytest.importorskip("py4j.protocol")
    with pytest.raises(protocol.Py4JError, match="broken"):
        _fit(protocol.Py4JError("broken"), False)
    with pytest.raises(ValueError, match="own"):
        _fit(ValueError("own"), True)
