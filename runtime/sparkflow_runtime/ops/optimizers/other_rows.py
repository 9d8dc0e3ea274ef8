"""What a row update does to the rows that have no gradient: its attribute `other_rows`."""

from __future__ import annotations

from typing import Final

from sparkflow_runtime.ops.signature import Attr, string_attr

OTHER_ROWS: Final = "other_rows"
UNCHANGED: Final = "unchanged"
ZERO_GRADIENT: Final = "zero_gradient"
"""They are updated for a gradient of 0: moments decay, and momentum still moves the variable."""
SLOTS_DECAY: Final = "slots_decay"
"""Their slots are updated for a gradient of 0."""
ATTR: Final[Attr] = string_attr(UNCHANGED, frozenset({UNCHANGED, ZERO_GRADIENT, SLOTS_DECAY}))
