"""Peers with a different protocol are rejected before a step, with both versions."""

from types import SimpleNamespace

import pytest

from sparkflow_runtime.errors import FailedPreconditionError
from sparkflow_runtime.master.client import open_session
from sparkflow_runtime.protos.worker_pb2 import Protocol
from sparkflow_runtime.testing.local_cluster import LocalCluster
from sparkflow_runtime.transport import protocol
from sparkflow_runtime.worker import service


def other(**changes: object) -> Protocol:
    theirs = Protocol()
    theirs.CopyFrom(protocol.own())
    for name, value in changes.items():
        setattr(theirs, name, value)
    return theirs


DTYPES = 0xC1264A3D
OTHERS = [
    (other(version=7), r"The peer speaks version 7 of .*, this process version 1"),
    (None, r"The peer speaks version 0 of .*, this process version 1"),
    (other(byte_order="middle"), r"middle-endian numbers, this process (little|big)-endian ones"),
    (other(dtypes=0xABC), r"other dtypes than this process \(checksum 00000abc, here \w{8}\)"),
]


@pytest.mark.parametrize(("theirs", "message"), OTHERS)
def test_both_sides_are_named(theirs: Protocol | None, message: str) -> None:
    with pytest.raises(FailedPreconditionError, match=message):
        protocol.require_same(theirs, "The peer")
    protocol.require_same(protocol.own(), "The peer")


def test_the_dtypes_of_this_version_are_those_that_others_have() -> None:
    """A change of a number or a size changes what is sent: then `VERSION` must grow, too."""
    assert (protocol.own().version, protocol.own().dtypes) == (1, DTYPES)


def test_a_session_over_tasks_of_another_version_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service, "protocol", SimpleNamespace(own=lambda: other(version=7)))
    with (
        LocalCluster(1, 1) as cluster,
        pytest.raises(
            FailedPreconditionError,
            match=r"Task /job:ps/replica:0/task:0 at .* speaks version 7 of .* version 1",
        ),
    ):
        open_session(cluster.target("worker", 0), create_timeout_s=60)
