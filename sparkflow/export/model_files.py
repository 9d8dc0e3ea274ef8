"""The files of a model: their names, their checksums, and how one model replaces another.

`model.json` is sealed and names the other files with their checksums, so that it decides which
model a directory holds. A model that is written over another gets files of other names; until the
new `model.json` is in place, the directory holds the old model, whole. Models of sparkflow before
2026-11-23 (format versions 1 and 2) have fixed names and no checksums.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sparkflow_runtime.checkpoint.sealed import open_json, seal_json
from sparkflow_runtime.errors import DataLossError, InvalidArgumentError

_log = logging.getLogger(__name__)

GRAPH_FILE: Final = "graph.pb"
VARIABLES_FILE: Final = "variables.safetensors"
MODEL_FILE: Final = "model.json"
DATA_FILES: Final = (GRAPH_FILE, VARIABLES_FILE)

FORMAT: Final = "sparkflow-inference-model"
FORMAT_VERSION: Final = 3
"""Version 1 knew models of one dense input only, version 2 no checksums; all are read."""

_NAME: Final = re.compile(r"(graph|variables)(-[0-9a-f]{8})?\.(pb|safetensors)")


@dataclass(frozen=True, slots=True)
class Description:
    """The content of `model.json`.

    Attributes:
        members: All but what belongs to the format.
        names: The files by what they are, `DATA_FILES`.
        checksums: Theirs: CRC-32C of the graph, that of all tensors of the variables
            (`tensors_checksum`). Empty for models of before.
    """

    members: dict[str, Any]
    names: Mapping[str, str]
    checksums: Mapping[str, str]


def seal_description(
    members: Mapping[str, Any], names: Mapping[str, str], checksums: Mapping[str, str]
) -> bytes:
    """The content of `model.json`; arguments as the attributes of `Description`."""
    files = {each: {"name": names[each], "checksum": checksums[each]} for each in DATA_FILES}
    return seal_json(
        {"format": FORMAT, "format_version": FORMAT_VERSION, "files": files, **members}, indent=1
    )


def read_description(content: bytes, origin: str = MODEL_FILE) -> Description:
    """The content of `model.json`.

    Args:
        content: The file.
        origin: Its path, for error texts.

    Raises:
        DataLossError: It is damaged.
        InvalidArgumentError: It is of something else, or of a later version.
    """
    members, sealed = open_json(content, origin)
    kind, version = members.pop("format", None), members.pop("format_version", None)
    if kind != FORMAT:
        raise InvalidArgumentError(
            message=f"{origin} has the format {kind!r}, it should be {FORMAT!r}: this is no "
            "model of sparkflow"
        )
    if type(version) is not int or version not in range(1, FORMAT_VERSION + 1):
        raise InvalidArgumentError(
            message=f"{origin} has format version {version!r}, this version of sparkflow reads "
            f"versions 1 to {FORMAT_VERSION}; install a later one (the model was written by "
            f"sparkflow {_version_of_writer(members)})"
        )
    if version < 3:
        _log.warning("%s is of sparkflow before 2026-11-23, which wrote no checksums", origin)
        return Description(members, {each: each for each in DATA_FILES}, {})
    if not sealed:
        raise DataLossError(message=f"{origin} is damaged: it lacks its checksum")
    try:
        files = members.pop("files")
        names = {each: str(files[each]["name"]) for each in DATA_FILES}
        checksums = {each: str(files[each]["checksum"]) for each in DATA_FILES}
    except (KeyError, TypeError) as error:
        raise DataLossError(message=f"{origin} is damaged: its files lack {error}") from error
    for name in names.values():
        if not is_data_file(name):
            raise DataLossError(message=f"{origin} names {name!r}, which is no file of a model")
    return Description(members, names, checksums)


def free_names(taken: Collection[str]) -> dict[str, str]:
    """Names for the files of a new model, beside those of another one."""
    if set(DATA_FILES).isdisjoint(taken):
        return {each: each for each in DATA_FILES}
    mark = secrets.token_hex(4)
    return {each: each.replace(".", f"-{mark}.", 1) for each in DATA_FILES}


def is_data_file(name: str) -> bool:
    """Whether a name is one of `free_names`."""
    return _NAME.fullmatch(name) is not None


def _version_of_writer(members: Mapping[str, Any]) -> Any:
    versions = members.get("versions")
    return versions.get("sparkflow") if isinstance(versions, dict) else "of unknown version"
