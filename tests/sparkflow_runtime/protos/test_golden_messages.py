"""Messages made by TensorFlow's classes parse into ours and serialise to the same bytes.

scripts/compare_protos_with_tensorflow.py writes the golden file.
"""

import importlib
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import message_factory, unknown_fields
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

import sparkflow_runtime.protos

ROOT = Path(__file__).resolve().parents[3]
GOLDEN: dict[str, dict[str, list[str]]] = json.loads(
    (ROOT / "tests/golden/protos/messages.json").read_text()
)
MODULES = [
    importlib.import_module(f"sparkflow_runtime.protos.{module.name}")
    for module in pkgutil.iter_modules(sparkflow_runtime.protos.__path__)
]


def _with_nested(message: Descriptor) -> Iterator[Descriptor]:
    if not message.GetOptions().map_entry:
        yield message
        for nested in message.nested_types:
            yield from _with_nested(nested)


DESCRIPTORS = {
    descriptor.full_name.removeprefix("sparkflow_runtime.protos."): descriptor
    for module in MODULES
    for message in module.DESCRIPTOR.message_types_by_name.values()
    for descriptor in _with_nested(message)
}
SAMPLES = [
    pytest.param(name, bytes.fromhex(sample), id=f"{name}-{source}-{index}")
    for name, sources in GOLDEN.items()
    for source, samples in sources.items()
    for index, sample in enumerate(samples)
]


def _new(name: str) -> Message:
    return message_factory.GetMessageClass(DESCRIPTORS[name])()


def _unknown_fields(message: Any) -> list[str]:
    """Returns the unknown fields of a message and of all messages in it, as "Message.number"."""
    # The stubs lack that the set is iterable.
    unknown: Any = unknown_fields.UnknownFieldSet(message)
    found = [f"{message.DESCRIPTOR.name}.{field.field_number}" for field in unknown]
    for field, value in message.ListFields():
        entry = field.message_type
        if entry is None:
            continue
        if entry.GetOptions().map_entry:
            if entry.fields_by_name["value"].message_type is None:
                continue
            children = list(value.values())
        else:
            children = list(value) if hasattr(value, "extend") else [value]
        for child in children:
            found += _unknown_fields(child)
    return found


def test_every_message_has_golden_bytes() -> None:
    assert GOLDEN.keys() == DESCRIPTORS.keys()


@pytest.mark.parametrize("name", sorted(DESCRIPTORS))
def test_golden_bytes_set_every_field(name: str) -> None:
    present: set[str] = set()
    for samples in GOLDEN[name].values():
        for sample in samples:
            message = _new(name)
            message.ParseFromString(bytes.fromhex(sample))
            present |= {field.name for field, _ in message.ListFields()}
    assert present == {field.name for field in DESCRIPTORS[name].fields}


@pytest.mark.parametrize(("name", "sample"), SAMPLES)
def test_golden_bytes_survive_a_round_trip(name: str, sample: bytes) -> None:
    message = _new(name)
    message.ParseFromString(sample)
    assert _unknown_fields(message) == []
    assert message.SerializeToString(deterministic=True) == sample


def test_unknown_fields_are_found_at_any_depth() -> None:
    message = _new("NamedTensorProto")
    # tensor = 2, in it field 999 (varint 1).
    message.ParseFromString(bytes.fromhex("1203b83e01"))
    assert _unknown_fields(message) == ["TensorProto.999"]


def test_services_name_messages_of_ours() -> None:
    methods = {
        service.full_name.removeprefix("sparkflow_runtime.protos."): [
            method.name for method in service.methods
        ]
        for module in MODULES
        for service in module.DESCRIPTOR.services_by_name.values()
    }
    assert methods.keys() == {"MasterService", "WorkerService", "RegistrationService"}
    for names in methods.values():
        assert {f"{name}{kind}" for name in names for kind in ("Request", "Response")} <= (
            DESCRIPTORS.keys()
        )
