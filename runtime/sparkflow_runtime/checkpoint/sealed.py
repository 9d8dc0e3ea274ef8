"""JSON whose first line has a checksum of the rest, so that all damage is detected.

The file is still JSON that any program can read: the checksum is its first member. It is over the
bytes, not the values; to edit such a file by hand, remove the first line's member, unless the
format requires a checksum.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from sparkflow_runtime.errors import DataLossError
from sparkflow_runtime.events.crc32c import crc32c

_MEMBER: Final = "crc32c"
_FIRST_LINE: Final = re.compile(rb'\{"crc32c": "([0-9a-f]{8})",\n')


def seal_json(members: Mapping[str, Any], indent: int | None = None) -> bytes:
    """Returns the bytes of a JSON object with a checksum.

    Args:
        members: The object; not empty, without a member `crc32c`.
        indent: As that of `json.dumps`.
    """
    assert members, "nothing to seal"
    assert _MEMBER not in members, "sealed twice"
    rest = json.dumps(members, indent=indent, sort_keys=indent is not None)[1:].lstrip("\n") + "\n"
    content = rest.encode()
    return b'{"%s": "%08x",\n' % (_MEMBER.encode(), crc32c(content)) + content


def open_json(data: bytes, origin: str) -> tuple[dict[str, Any], bool]:
    """Returns the members of an object, and whether they were sealed.

    Files of earlier versions are not; the caller decides by the version whether that is valid.

    Args:
        data: The result of `seal_json`, or any JSON object.
        origin: Its source, for error texts.

    Raises:
        DataLossError: It is not a JSON object, or was changed or truncated after it was written.
    """
    match = _FIRST_LINE.match(data)
    if match is not None:
        found = crc32c(data[match.end() :])
        if found != int(match[1], 16):
            raise DataLossError(
                message=f"{origin} is damaged: its checksum is {found:08x}, "
                f"{match[1].decode()} was written"
            )
    try:
        members = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataLossError(message=f"{origin} cannot be read: {error!r}") from error
    if not isinstance(members, dict):
        raise DataLossError(message=f"{origin} cannot be read: it is not a JSON object")
    if members.pop(_MEMBER, None) is not None and match is None:
        raise DataLossError(message=f"{origin} is damaged: its first line was changed")
    return members, match is not None
