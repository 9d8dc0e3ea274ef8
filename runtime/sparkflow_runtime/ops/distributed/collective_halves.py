"""What the two halves of a collective are called: see `ops.distributed.collective_parts`."""

from typing import Final

START: Final = "_CollectiveStart"
WAIT: Final = "_CollectiveWait"
