"""Tasks and the chief find each other by a file."""

from pathlib import Path

import pytest

from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.launch.connect.meeting import (
    OVER,
    end,
    find,
    is_published,
    publish,
    tell_over,
)


def test_an_address_is_found_until_the_end(tmp_path: Path) -> None:
    directory = str(tmp_path / "a" / "meeting")
    assert not is_published(directory)
    publish(directory, "a token", "10.0.0.1:7")
    assert is_published(directory)  # as it appears to a stage that Spark restarts
    assert find(directory, "a token", 0.0) == "10.0.0.1:7"
    tell_over(directory, "a token")
    assert find(directory, "a token", 0.0) == OVER
    assert is_published(directory)
    with pytest.raises(SparkTrainingError, match="not been written by a task of this job"):
        find(directory, "another token", 0.0)
    end(directory)
    end(directory)
    assert not is_published(directory)
    with pytest.raises(SparkTrainingError, match=r"has not written its address to .*meeting"):
        find(directory, "a token", 0.0)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "was not written by a task"),
        (b"[]", "was not written by a task"),
        (b"\xff", "was not written by a task"),
        (b'{"address": "evil:1"}', "was not written by a task"),
        (
            b'{"address": "evil:1", "signature": "\\u00fc"}',
            "not been written by a task of this job",
        ),
    ],
)
def test_what_others_have_written_is_refused(tmp_path: Path, content: bytes, text: str) -> None:
    (tmp_path / "address").write_bytes(content)
    with pytest.raises(SparkTrainingError, match=text):
        find(str(tmp_path), "a token", 0.0)


def test_the_signature_is_that_of_the_token(tmp_path: Path) -> None:
    publish(str(tmp_path), "another token", "evil:1")
    with pytest.raises(SparkTrainingError, match="not been written by a task of this job"):
        find(str(tmp_path), "a token", 0.0)
