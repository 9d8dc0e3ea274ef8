"""One row of the tables in `_api/ops`: a public function that adds one node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Row:
    """A function that converts its arguments and adds one node of an op.

    What its op's signature tells is not repeated here: which parameters are inputs and which are
    attributes, how an attribute is converted, the dtypes, and which dtypes and shapes are refused.

    Attributes:
        op: The op type.
        names: Public names, separated by spaces; the function is called as the first ends.
        parameters: As Python writes them, in TensorFlow's order. One without an annotation takes
            anything. `name` is the last one where it is not mentioned.
        doc: What the function gives: a sentence, with paragraphs below it where more is to say.
        arguments: What to say of parameters beyond their dtypes.
        returns: What to say of the result; from the op's signature where empty.
        raises: Further exceptions.
        result: The annotation of the result; from the op's signature where empty.
        node: The name of the node where it is not the op type.
        function: What the function is called where no public name ends so.
        takes: What else the function takes beside tensors: `stored values` for sparse tensors of
            which the values alone change, `ragged` where `sparkflow.ragged` has a function of this
            name for ragged tensors.
    """

    op: str
    names: str
    parameters: str
    doc: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    returns: str = ""
    raises: Mapping[str, str] = field(default_factory=dict)
    result: str = ""
    node: str = ""
    function: str = ""
    takes: str = ""

    @property
    def public(self) -> tuple[str, ...]:
        """The public names."""
        return tuple(self.names.split())

    @property
    def called(self) -> str:
        """The function's own name."""
        return self.function or self.public[0].rpartition(".")[2]
