import pytest

from sparkflow_runtime.device.names import DeviceSpec, merge
from sparkflow_runtime.errors import InvalidArgumentError

FULL = "/job:ps/replica:0/task:1/device:GPU:2"


@pytest.mark.parametrize(
    ("text", "full"),
    [
        (FULL, FULL),
        ("", ""),
        ("/cpu:0", "/device:CPU:0"),
        ("/GPU:3", "/device:GPU:3"),
        ("//cpu:0", "/device:CPU:0"),
        ("/device:cpu:1", "/device:CPU:1"),
        ("/device:GPU", "/device:GPU:*"),
        ("/device:GPU:*", "/device:GPU:*"),
        ("/device:*", ""),
        ("/job:a.b_c-1/task:*", "/job:a.b_c-1"),
        ("/device:CPU:0/task:2/job:w", "/job:w/task:2/device:CPU:0"),
        ("/job:a/job:b", "/job:b"),
    ],
)
def test_spellings(text: str, full: str) -> None:
    assert DeviceSpec.from_string(text).to_string() == full


@pytest.mark.parametrize(
    "text",
    [
        "cpu:0",
        "/job",
        "/task:x",
        "/tpu:0",
        "/job:a b",
        "/cpu:",
        "/job:ps/",
        "/task:-1",
        "/task:" + "9" * 5000,
        "/job:ps\n",
        "x" * 10_000,
    ],
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a device name") as info:
        DeviceSpec.from_string(text)
    assert len(str(info.value)) < 400


def test_inner_scope_wins_part_by_part() -> None:
    assert merge("/task:2", "/job:ps/task:1/cpu:0") == "/job:ps/task:2/device:CPU:0"
    assert merge("/gpu:1", "/job:ps/cpu:0") == "/job:ps/device:GPU:1"
    # An index belongs to its type: another type does not inherit it.
    assert merge("/device:GPU", "/cpu:0") == "/device:GPU:*"
    assert merge("", FULL) == FULL


def test_matching() -> None:
    full = DeviceSpec.from_string(FULL)
    for text in ("", "/job:ps", "/task:1", "/gpu:2", "/device:GPU", FULL):
        assert DeviceSpec.from_string(text).matches(full)
    for text in ("/job:worker", "/task:0", "/gpu:0", "/cpu:2"):
        assert not DeviceSpec.from_string(text).matches(full)
    assert full.task_name == "/job:ps/replica:0/task:1"
