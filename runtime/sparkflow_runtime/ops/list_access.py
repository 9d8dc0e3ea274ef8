"""What an op does with lists of tensors, said so that a loop can do it in machine code."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Access(Enum):
    """What becomes of the list that is the first input.

    Attributes:
        LENGTH: The output is how many elements it has.
        NEW: There is no such input: the output is a list of as many elements as the second input
            says, none of them set.
        READ: The output is the element at the second input, zeros where none is set.
        WRITE: The output is the list whose element at the second input is the third one.
        CLEAR: The output is the list whose element at the second input is not set.
        SUM: The output is the sum of all inputs, element by element; what is not set is left out.
    """

    LENGTH = auto()
    NEW = auto()
    READ = auto()
    WRITE = auto()
    CLEAR = auto()
    SUM = auto()


@dataclass(frozen=True, slots=True)
class ListAccess:
    """What a node does with a list.

    Attributes:
        access: What.
        once: Whether it fails to write where something is set.
        grows: Whether the list becomes longer by what is written past its end.
    """

    access: Access
    once: bool = False
    grows: bool = False
