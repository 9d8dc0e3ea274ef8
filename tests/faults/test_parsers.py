"""Every module that parses bytes has a fuzz target, or a reason why it needs none.

`parsers.toml` is the list. It covers modules that call one of `DECODERS`: they turn bytes or text,
which may come from a file, another process or a user, into messages, numbers or values.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib")  # Python 3.11 has it
ROOT = Path(__file__).parents[2]
PARSERS = tomllib.loads((ROOT / "tests/faults/parsers.toml").read_text("utf-8"))
DECODERS = {
    *["FromString", "ParseFromString", "MergeFromString", "Parse", "ParseDict"],
    *["loads", "load_json", "frombuffer", "unpack", "unpack_from", "iter_unpack", "from_buffer"],
    *["b64decode", "decompress", "decompressobj", "read_footer", "ParquetFile"],
    *["open_stream", "literal_eval", "fromstring"],
}


def decoders_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr in DECODERS:
            found.add(node.attr)
    return found


def test_every_parser_has_a_target_or_a_reason() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for package in ("sparkflow", "runtime/sparkflow_runtime")
        for path in (ROOT / package).rglob("*.py")
        if (names := decoders_of(path)) and "protos/" not in str(path)
    }
    known = {path for each in PARSERS.values() for path in each["modules"]}
    assert found.keys() - known == set(), "name these modules in tests/faults/parsers.toml"
    assert known - found.keys() == set(), "these take no bytes apart any more"


def test_the_targets_are_there() -> None:
    targets = {path.name for path in (ROOT / "fuzz/corpus").iterdir()}
    for name, row in PARSERS.items():
        assert row.keys() in ({"modules", "targets"}, {"modules", "why"}), name
        assert set(row.get("targets", ())) <= targets, name
    paths = [path for each in PARSERS.values() for path in each["modules"]]
    assert len(paths) == len(set(paths))
