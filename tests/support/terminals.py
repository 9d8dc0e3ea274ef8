"""Text as a terminal shows it."""

from __future__ import annotations

import re
from typing import Final

_SEQUENCE: Final = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def plain(text: str) -> str:
    """The text without what moves the cursor or sets colours."""
    return _SEQUENCE.sub("", text)
