"""Text as a terminal shows it."""

from __future__ import annotations

import re
from typing import Final

_SEQUENCE: Final = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def plain(text: str) -> str:
    """Returns the text without control sequences for cursor and colours."""
    return _SEQUENCE.sub("", text)
