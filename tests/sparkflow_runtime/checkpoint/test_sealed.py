import json

import pytest

from sparkflow_runtime.checkpoint.sealed import open_json, seal_json
from sparkflow_runtime.errors import DataLossError
from support.damage import damages

MEMBERS = {"version": 3, "files": {"a": [1, 2]}, "name": "größer"}


@pytest.mark.parametrize("indent", [None, 2])
def test_what_was_sealed_is_opened(indent):
    assert open_json(seal_json(MEMBERS, indent), "f") == (MEMBERS, True)


@pytest.mark.parametrize("indent", [None, 2])
def test_the_file_is_json_for_other_programs(indent):
    members = json.loads(seal_json(MEMBERS, indent))
    assert next(iter(members)) == "crc32c"
    assert members.items() >= MEMBERS.items()


def test_no_damage_goes_unseen():
    for bad in damages(seal_json(MEMBERS)):
        try:
            _, sealed = open_json(bad, "f")
        except DataLossError:
            continue
        assert not sealed  # its first line is damaged; readers that expect a seal reject it


def test_files_without_a_seal_are_known_as_such():
    assert open_json(b'{"version": 1}', "f") == ({"version": 1}, False)


def test_the_checksum_may_not_be_moved_from_the_first_line():
    with pytest.raises(DataLossError, match="its first line was changed"):
        open_json(b'{"version": 1, "crc32c": "00000000"}', "f")


@pytest.mark.parametrize("data", [b"", b"[1]", b"\xff", b"[" * 100000])
def test_what_is_no_object_is_refused(data):
    with pytest.raises(DataLossError, match="f cannot be read"):
        open_json(data, "f")
