import contextlib
import errno
import io
import math
import os
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sparkflow_runtime.errors import DataLossError, FailedPreconditionError
from sparkflow_runtime.events.event_file import EventFileWriter, read_events, read_scalars
from sparkflow_runtime.events.records import frame_record
from sparkflow_runtime.protos import event_pb2
from support.damage import disk_of

# The output of TensorFlow 2.21's TFRecordWriter and Event class for an event with the version at
# 1.5 s and one with the scalars loss = 0.5 and accuracy = 0.25 of step 7 at 2.5 s.
TENSORFLOW_BYTES = bytes.fromhex(
    "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c"
    "2b00000000000000861bc34b09000000000000044010072a1e0a0b0a046c6f7373150000003f0a0f"
    "0a086163637572616379150000803e29d55070"
)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[EventFileWriter]:
    with EventFileWriter(tmp_path, clock=lambda: 1.5) as writer:
        yield writer


def test_a_file_has_the_bytes_that_tensorflow_writes(writer: EventFileWriter) -> None:
    writer.add_scalars(7, 2.5, {"loss": 0.5, "accuracy": 0.25})
    writer.close()
    assert writer.path.read_bytes() == TENSORFLOW_BYTES


def test_a_file_that_tensorflow_wrote_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1.host"
    path.write_bytes(TENSORFLOW_BYTES)
    first, second = read_events(path)
    assert (first.wall_time, first.file_version) == (1.5, "brain.Event:2")
    assert (second.wall_time, second.step) == (2.5, 7)
    assert read_scalars(path) == {"loss": [(7, 0.5)], "accuracy": [(7, 0.25)]}


def test_the_name_tells_time_host_and_process(tmp_path: Path) -> None:
    with EventFileWriter(tmp_path, suffix=".eval", clock=lambda: 1234.9) as writer:
        assert writer.path.name == (
            f"events.out.tfevents.0000001234.{socket.gethostname()}.{os.getpid()}.0.eval"
        )


def test_writers_of_the_same_second_get_files_of_their_own(tmp_path: Path) -> None:
    with (
        EventFileWriter(tmp_path, clock=lambda: 1.0) as first,
        EventFileWriter(tmp_path, clock=lambda: 1.9) as second,
    ):
        first.add_scalars(1, 1.0, {"a": 1.0})
        second.add_scalars(2, 1.0, {"b": 2.0})
    assert first.path != second.path
    assert read_scalars(first.path) == {"a": [(1, 1.0)]}
    assert read_scalars(second.path) == {"b": [(2, 2.0)]}


def test_the_directory_is_made(tmp_path: Path) -> None:
    with EventFileWriter(tmp_path / "runs" / "1") as writer:
        assert writer.path.parent == tmp_path / "runs" / "1"


def test_the_version_is_on_disk_at_once(writer: EventFileWriter) -> None:
    assert [event.file_version for event in read_events(writer.path)] == ["brain.Event:2"]


def test_flush_puts_events_on_disk(writer: EventFileWriter) -> None:
    writer.add_scalars(1, 2.0, {"loss": 3.0})
    assert read_scalars(writer.path) == {}
    writer.flush()
    assert read_scalars(writer.path) == {"loss": [(1, 3.0)]}


def test_no_values_make_no_event(writer: EventFileWriter) -> None:
    writer.add_scalars(1, 2.0, {})
    writer.flush()
    assert len(list(read_events(writer.path))) == 1


def test_extreme_values_and_steps_are_kept(writer: EventFileWriter) -> None:
    values = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf, "0": 0.0, "huge": 1e300}
    writer.add_scalars(2**63 - 1, 2.0, values)
    writer.flush()
    found = read_scalars(writer.path)
    assert list(found) == list(values)
    assert math.isnan(found["nan"][0][1])
    assert found["inf"] == found["huge"] == [(2**63 - 1, math.inf)]
    assert found["-inf"] == [(2**63 - 1, -math.inf)]
    assert found["0"] == [(2**63 - 1, 0.0)]


def test_other_events_are_written_as_they_are(writer: EventFileWriter) -> None:
    session_log = event_pb2.SessionLog(status=event_pb2.SessionLog.CHECKPOINT, checkpoint_path="p")
    event = event_pb2.Event(wall_time=9.0, step=3, session_log=session_log)
    writer.add_event(event)
    writer.flush()
    assert list(read_events(writer.path))[1] == event
    assert read_scalars(writer.path) == {}


def test_close_can_be_called_again_and_flush_after_it(writer: EventFileWriter) -> None:
    writer.add_scalars(1, 2.0, {"loss": 3.0})
    writer.close()
    writer.close()
    writer.flush()
    assert read_scalars(writer.path) == {"loss": [(1, 3.0)]}


def test_a_closed_writer_refuses_events(writer: EventFileWriter) -> None:
    writer.close()
    expected = re.escape(f"cannot add an event to {writer.path}: its writer is closed")
    with pytest.raises(FailedPreconditionError, match=f"^{expected}$"):
        writer.add_scalars(1, 2.0, {"loss": 3.0})


def test_threads_do_not_tear_each_others_records(writer: EventFileWriter) -> None:
    with ThreadPoolExecutor(4) as pool:
        for thread in range(4):
            for step in range(50):
                pool.submit(writer.add_scalars, step, 1.0, {f"tag{thread}": step})
    writer.flush()
    found = read_scalars(writer.path)
    assert {tag: sorted(step for step, _ in points) for tag, points in found.items()} == {
        f"tag{thread}": list(range(50)) for thread in range(4)
    }


def test_a_record_that_is_no_event_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1.host"
    path.write_bytes(frame_record(b"") + frame_record(b"\xff\xff"))
    events = read_events(path)
    assert next(events) == event_pb2.Event()
    said = f"^record 1 of {re.escape(str(path))} is not an event: "
    with pytest.raises(DataLossError, match=said):
        next(events)


def test_the_file_is_closed_when_its_first_event_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: EventFileWriter) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(EventFileWriter, "flush", fail)
    # A file left open would cause a warning, and warnings are errors.
    with pytest.raises(OSError, match="no space left"):
        EventFileWriter(tmp_path)


def _scalars_until_the_damage(path: Path) -> list[float]:
    values: list[float] = []
    with contextlib.suppress(DataLossError):
        for event in read_events(path):
            values += [each.simple_value for each in event.summary.value]
    return values


def _write(logdir: Path, count: int) -> Path:
    with EventFileWriter(logdir, clock=lambda: 1.5) as writer:
        for step in range(count):
            writer.add_scalars(step, 2.5, {"v": float(step)})
            writer.flush()
    return writer.path


def test_of_a_file_cut_at_any_byte_the_events_before_are_read(tmp_path: Path) -> None:
    """Which is what the death of a writer leaves, before, during and after any of its writes."""
    path = _write(tmp_path, 3)
    whole = path.read_bytes()
    found = []
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        found.append(_scalars_until_the_damage(path))
    assert sorted(found, key=len) == found
    assert {len(each) for each in found} == {0, 1, 2, 3}
    assert all(each == [0.0, 1.0, 2.0][: len(each)] for each in found)


def test_a_disk_that_is_full_after_any_byte_is_named(tmp_path: Path) -> None:
    whole = _write(tmp_path / "whole", 3)
    for size in range(whole.stat().st_size):
        logdir = tmp_path / str(size)
        with disk_of(size), pytest.raises(OSError, match="File too large, after") as caught:
            _write(logdir, 3)
        assert f"after {size} bytes: '{logdir}/events.out" in str(caught.value)
        kept = list(logdir.iterdir())
        # Without its first event TensorBoard could not read the file.
        assert len(kept) == (size >= len(frame_record(VERSION)))
        for path in kept:
            assert _scalars_until_the_damage(path) == [0.0, 1.0, 2.0][: _whole_events(size)]


VERSION = event_pb2.Event(wall_time=1.5, file_version="brain.Event:2").SerializeToString()


def _whole_events(size: int) -> int:
    sizes = []
    for step in range(3):
        event = event_pb2.Event(wall_time=2.5, step=step)
        event.summary.value.add(tag="v", simple_value=float(step))
        sizes.append(len(frame_record(event.SerializeToString())))
    left = size - len(frame_record(VERSION))
    return sum(sum(sizes[: number + 1]) <= left for number in range(3))


class FailsOnce(io.FileIO):
    """A file whose write with this number fails."""

    def __init__(self, path: Path, number: int, code: int) -> None:
        super().__init__(path, "xb")
        self._left, self._code = number, code

    def write(self, data: Any) -> int | None:
        self._left -= 1
        if not self._left:
            raise OSError(self._code, os.strerror(self._code))
        return super().write(data)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_nothing_is_lost_or_torn_by_a_write_that_fails_once(
    code: int, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(path: Path, mode: str) -> io.BufferedWriter:
        return io.BufferedWriter(FailsOnce(path, number, code))

    monkeypatch.setattr(Path, "open", opened)
    said = f"{os.strerror(code)}, after [0-9]+ bytes: '{tmp_path}/events.out"
    if number == 1:
        with pytest.raises(OSError, match=said):
            EventFileWriter(tmp_path)
        assert list(tmp_path.iterdir()) == []
        return
    with EventFileWriter(tmp_path) as writer:
        failed = 0
        for step in range(3):
            writer.add_scalars(step, 2.5, {"v": float(step)})
            try:
                writer.flush()
            except OSError as error:
                failed += re.search(said, str(error)) is not None
    assert failed == 1
    assert [value for _, value in read_scalars(writer.path)["v"]] == [0.0, 1.0, 2.0]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=f"{tmp_path}/file/train"):
        EventFileWriter(tmp_path / "file" / "train")
