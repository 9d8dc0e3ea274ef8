"""Compares our protobuf messages with those of an installed TensorFlow, and writes the golden file.

    PYTHONPATH=runtime python scripts/compare_protos_with_tensorflow.py
    PYTHONPATH=runtime python scripts/compare_protos_with_tensorflow.py --write-golden

It runs by hand, in an environment with tensorflow 2.21, not in CI. It prints what we left out and
every mismatch in names, numbers, types, labels, packing, oneofs and enum values, and exits with 1
if there is a mismatch. Fields numbered 1000 and up, the messages in the files OURS and those in
OUR_MESSAGES are our own.

tests/golden/protos/messages.json holds serialised messages, made with TensorFlow's classes where
TensorFlow has the message. Its test needs no TensorFlow.
"""

import argparse
import importlib
import json
import mmap
import os
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import Message

import sparkflow_runtime.protos

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden/protos/messages.json"
OUR_PACKAGE = "sparkflow_runtime.protos."
# error.Code lives in a package of its own, so the longer name comes first.
TENSORFLOW_PACKAGES = ("tensorflow.error.", "tensorflow.")
FIRST_OWN_FIELD = 1000
# Files without a counterpart in TensorFlow.
OURS = frozenset({"pass_graph", "plan_stats", "rendezvous", "run_loop"})
# Messages of ours in files that TensorFlow has.
OUR_MESSAGES = frozenset(
    {"ChannelAddress", "KeepWorkerSessionRequest", "KeepWorkerSessionResponse", "Protocol"}
)
# Not in TensorFlow's Python package; their descriptors are compiled into its C++ library.
ONLY_IN_LIBRARY = (
    "tensorflow/core/protobuf/master.proto",
    "tensorflow/core/protobuf/worker.proto",
)
# Messages of TensorFlow that hold themselves are filled this deep.
MAX_DEPTH = 2


def our_files() -> dict[str, FileDescriptor]:
    """Returns topic ("graph") -> file descriptor of every generated module."""
    names = [module.name for module in pkgutil.iter_modules(sparkflow_runtime.protos.__path__)]
    return {
        name.removesuffix("_pb2"): importlib.import_module(
            f"sparkflow_runtime.protos.{name}"
        ).DESCRIPTOR
        for name in names
        if name.endswith("_pb2")
    }


def load_tensorflow() -> Path:
    """Puts TensorFlow's descriptors into the default pool; returns the path of its C++ library."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    tensorflow: Any = importlib.import_module("tensorflow")
    root = Path(tensorflow.__file__).parent
    for folder in ("framework", "protobuf", "example", "util"):
        for path in sorted((root / "core" / folder).glob("*_pb2.py")):
            importlib.import_module(f"tensorflow.core.{folder}.{path.stem}")
    library = next(iter(sorted(root.glob("libtensorflow_cc.so*"))))
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for name in ONLY_IN_LIBRARY:
            descriptor_pool.Default().AddSerializedFile(embedded_file(data, name))
    return library


def embedded_file(data: mmap.mmap, name: str) -> bytes:
    """Returns the serialised FileDescriptorProto of a proto3 file that was compiled into data."""
    # Field 1 is the name, the last field the syntax.
    start = data.find(b"\n" + bytes([len(name)]) + name.encode())
    if start < 0:
        raise LookupError(f"{name} is not in TensorFlow's library")
    syntax = b"b\x06proto3"
    serialized = data[start : data.find(syntax, start) + len(syntax)]
    if descriptor_pb2.FileDescriptorProto.FromString(serialized).name != name:
        raise LookupError(f"{name}: no descriptor at offset {start} of TensorFlow's library")
    return serialized


def all_messages(file: FileDescriptor) -> Iterator[Descriptor]:
    """Yields the messages of a file with the nested ones, without map entries."""

    def visit(message: Descriptor) -> Iterator[Descriptor]:
        if not message.GetOptions().map_entry:
            yield message
            for nested in message.nested_types:
                yield from visit(nested)

    for message in file.message_types_by_name.values():
        yield from visit(message)


def all_enums(file: FileDescriptor) -> Iterator[EnumDescriptor]:
    """Yields the enums of a file, at the top and inside messages."""
    yield from file.enum_types_by_name.values()
    for message in all_messages(file):
        yield from message.enum_types


def local_name(full_name: str) -> str:
    """Returns a full name without our or TensorFlow's proto package."""
    for package in (OUR_PACKAGE, *TENSORFLOW_PACKAGES):
        if full_name.startswith(package):
            return full_name.removeprefix(package)
    return full_name


def counterpart(full_name: str) -> Any:
    """Returns TensorFlow's descriptor of one of our messages or enums, or None."""
    pool = descriptor_pool.Default()
    for package in TENSORFLOW_PACKAGES:
        for find in (pool.FindMessageTypeByName, pool.FindEnumTypeByName):
            try:
                return find(package + local_name(full_name))
            except KeyError:
                pass
    return None


def field_facts(field: FieldDescriptor) -> dict[str, object]:
    """Returns what both sides must agree on for one field."""
    # A copy of the descriptor has type and label in every protobuf version.
    proto = descriptor_pb2.DescriptorProto()
    assert field.containing_type is not None
    field.containing_type.CopyToProto(proto)
    own = next(each for each in proto.field if each.number == field.number)
    facts: dict[str, object] = {
        "name": field.name,
        "type": descriptor_pb2.FieldDescriptorProto.Type.Name(own.type),
        "label": descriptor_pb2.FieldDescriptorProto.Label.Name(own.label),
        "type_name": local_name(own.type_name.lstrip(".")),
        "packed": field.is_packed,
        "oneof": field.containing_oneof.name if field.containing_oneof else None,
        "presence": field.has_presence,
    }
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        facts["type_name"] = "map"
        facts["entry"] = [field_facts(part) for part in entry.fields]
    return facts


def compare_message(ours: Descriptor, theirs: Descriptor) -> tuple[list[str], list[str]]:
    """Returns (mismatches, fields of theirs that we left out)."""
    name = local_name(ours.full_name)
    mismatches = []
    for field in ours.fields:
        other = theirs.fields_by_number.get(field.number)
        if field.number >= FIRST_OWN_FIELD:
            if other is not None:
                mismatches.append(f"{name}: our field {field.number} is one of TensorFlow's")
        elif other is None:
            mismatches.append(f"{name}.{field.name} = {field.number}: not in TensorFlow")
        elif field_facts(field) != field_facts(other):
            mismatches.append(
                f"{name} field {field.number}: {field_facts(field)} != {field_facts(other)}"
            )
    left_out = [
        f"{name}.{field.name} = {field.number}"
        for field in theirs.fields
        if field.number not in ours.fields_by_number
    ]
    nested = {each.name for each in ours.nested_types}
    left_out += [
        f"message {name}.{each.name}"
        for each in theirs.nested_types
        if each.name not in nested and not each.GetOptions().map_entry
    ]
    return mismatches, left_out


def compare_enum(ours: EnumDescriptor, theirs: EnumDescriptor) -> tuple[list[str], list[str]]:
    """Returns (mismatches, values of theirs that we left out)."""
    name = local_name(ours.full_name)
    own = {value.name: value.number for value in ours.values}
    other = {value.name: value.number for value in theirs.values}
    mismatches = [
        f"enum {name}.{value} = {number}: TensorFlow has {other.get(value)}"
        for value, number in own.items()
        if other.get(value) != number
    ]
    return mismatches, [f"enum {name}.{value}" for value in other.keys() - own.keys()]


def compare_files(files: dict[str, FileDescriptor]) -> tuple[list[str], list[str]]:
    """Returns (mismatches, what we left out) over all files that TensorFlow has."""
    mismatches: list[str] = []
    left_out: list[str] = []
    for topic, file in files.items():
        if topic in OURS:
            continue
        their_files: dict[str, FileDescriptor] = {}
        mirrored: list[Descriptor | EnumDescriptor] = [*all_messages(file), *all_enums(file)]
        for ours in mirrored:
            theirs = counterpart(ours.full_name)
            if theirs is None and local_name(ours.full_name) in OUR_MESSAGES:
                continue
            if theirs is None:
                mismatches.append(f"{local_name(ours.full_name)}: not in TensorFlow")
                continue
            their_files[theirs.file.name] = theirs.file
            if isinstance(ours, Descriptor):
                found, missing = compare_message(ours, theirs)
            else:
                found, missing = compare_enum(ours, theirs)
            mismatches += found
            left_out += missing
        for their_file in their_files.values():
            left_out += [
                f"message {name} ({their_file.name})"
                for name in their_file.message_types_by_name
                if all(name not in other.message_types_by_name for other in files.values())
            ]
    return mismatches, sorted(set(left_out))


def compare_services(files: dict[str, FileDescriptor], library: Path) -> list[str]:
    """Returns the methods of our services whose path is not a string in TensorFlow's library."""
    mismatches = []
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for topic in ("master_service", "worker_service"):
            for service in files[topic].services_by_name.values():
                for method in service.methods:
                    path = f"/tensorflow.{service.name}/{method.name}"
                    if data.find(path.encode() + b"\0") < 0:
                        mismatches.append(f"{path}: not in TensorFlow's library")
    return mismatches


class Filler:
    """Fills the fields that we have with values that differ from the defaults and each other."""

    def __init__(self) -> None:
        self._count = 0

    def fill(self, message: Any, like: Descriptor, variant: int, depth: int = 0) -> None:
        """Fills message with the fields of like.

        Args:
          message: a message of any class that has these fields under the same numbers.
          like: our descriptor; names which fields to fill.
          variant: which member of each oneof to set; a oneof with fewer members sets its last.
          depth: how many messages this one lies in.
        """
        chosen = {oneof.fields[min(variant, len(oneof.fields) - 1)].number for oneof in like.oneofs}
        for field in like.fields:
            if field.number not in message.DESCRIPTOR.fields_by_number:
                continue
            if field.containing_oneof is not None and field.number not in chosen:
                continue
            value = getattr(message, field.name)
            entry = field.message_type
            if entry is not None and entry.GetOptions().map_entry:
                self._fill_map(value, entry, depth)
            elif hasattr(value, "extend"):
                self._fill_repeated(value, field, depth)
            elif entry is not None:
                value.SetInParent()
                self._fill_nested(value, entry, depth)
            else:
                setattr(message, field.name, self._scalar(field))

    def _fill_nested(self, message: Any, like: Descriptor, depth: int) -> None:
        if depth < MAX_DEPTH:
            self.fill(message, like, variant=1 - depth % 2, depth=depth + 1)

    def _fill_repeated(self, values: Any, field: FieldDescriptor, depth: int) -> None:
        for _ in range(2):
            if field.message_type is not None:
                self._fill_nested(values.add(), field.message_type, depth)
            else:
                values.append(self._scalar(field))

    def _fill_map(self, values: Any, entry: Descriptor, depth: int) -> None:
        key_field, value_field = entry.fields_by_name["key"], entry.fields_by_name["value"]
        # Integer keys sort differently in protobuf 5, 7 and their pure Python versions (tried
        # 2026-11-21 with deterministic=True), so such a map gets only one entry.
        for _ in range(2 if key_field.cpp_type == key_field.CPPTYPE_STRING else 1):
            key = self._scalar(key_field)
            if value_field.message_type is not None:
                self._fill_nested(values[key], value_field.message_type, depth)
            else:
                values[key] = self._scalar(value_field)

    def _scalar(self, field: FieldDescriptor) -> Any:
        self._count += 1
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_STRING:
                text = f"{field.name}-{self._count}"
                return text.encode() + b"\x00\xff" if field.type == field.TYPE_BYTES else text
            case FieldDescriptor.CPPTYPE_BOOL:
                return True
            case FieldDescriptor.CPPTYPE_ENUM:
                assert field.enum_type is not None
                values = [each.number for each in field.enum_type.values if each.number != 0]
                return values[self._count % len(values)]
            case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
                return self._count + 0.25
            case FieldDescriptor.CPPTYPE_INT32:
                return -self._count if self._count % 2 else self._count << 20
            case FieldDescriptor.CPPTYPE_INT64:
                return -self._count if self._count % 2 else self._count << 40
            case FieldDescriptor.CPPTYPE_UINT32:
                return (1 << 32) - self._count
            case FieldDescriptor.CPPTYPE_UINT64:
                return (1 << 64) - self._count
        raise NotImplementedError(f"{field.full_name}: type {field.cpp_type}")


def serialize_filled(ours: Descriptor, cls: type[Message]) -> list[str]:
    """Returns one serialised message (hex) for each member of our largest oneof, at least one."""
    variants = max((len(oneof.fields) for oneof in ours.oneofs), default=1)
    lines = []
    for variant in range(variants):
        message = cls()
        Filler().fill(message, ours, variant)
        lines.append(message.SerializeToString(deterministic=True).hex())
    return lines


def write_golden(files: dict[str, FileDescriptor]) -> None:
    """Writes GOLDEN: message -> {"tensorflow": [...], "ours": [...]} of serialised messages."""
    golden: dict[str, dict[str, list[str]]] = {}
    for topic, file in files.items():
        for ours in all_messages(file):
            theirs = None if topic in OURS else counterpart(ours.full_name)
            sources: dict[str, list[str]] = {}
            if theirs is not None:
                sources["tensorflow"] = serialize_filled(
                    ours, message_factory.GetMessageClass(theirs)
                )
            if theirs is None or any(field.number >= FIRST_OWN_FIELD for field in ours.fields):
                sources["ours"] = serialize_filled(ours, message_factory.GetMessageClass(ours))
            golden[local_name(ours.full_name)] = sources
    GOLDEN.parent.mkdir(parents=True, exist_ok=True)
    GOLDEN.write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n")
    print(f"wrote {GOLDEN.relative_to(ROOT)}: {len(golden)} messages")


def main() -> int:
    """Runs the script; returns its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write-golden", action="store_true", help="write the golden file too")
    arguments = parser.parse_args()
    files = our_files()
    library = load_tensorflow()
    mismatches, left_out = compare_files(files)
    mismatches += compare_services(files, library)
    for line in left_out:
        print(f"left out: {line}")
    for line in mismatches:
        print(f"MISMATCH: {line}")
    count = sum(1 for file in files.values() for _ in all_messages(file))
    print(f"{count} messages, {len(mismatches)} mismatches, {len(left_out)} left out")
    if arguments.write_golden and not mismatches:
        write_golden(files)
    return 1 if mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
