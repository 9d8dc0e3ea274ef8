"""How an op accesses lists of tensors, so that loops can do it in machine code."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Access(Enum):
    """The access to the list that is the first input.

    Attributes:
        LENGTH: The output is its number of elements.
        NEW: The first input is not a list: the output is a list of unset elements, whose number is
            the second input.
        READ: The output is the element at the second input, zeros if it is not set.
        WRITE: The output is the list with its element at the second input set to the third.
        CLEAR: The output is the list with its element at the second input unset.
        SUM: The output is the elementwise sum of all inputs, skipping unset elements.
    """

    LENGTH = auto()
    NEW = auto()
    READ = auto()
    WRITE = auto()
    CLEAR = auto()
    SUM = auto()


@dataclass(frozen=True, slots=True)
class ListAccess:
    """A node's access to a list.

    Attributes:
        access: The kind of access.
        once: Whether writing to a set element fails.
        grows: Whether a write past the end extends the list.
    """

    access: Access
    once: bool = False
    grows: bool = False
