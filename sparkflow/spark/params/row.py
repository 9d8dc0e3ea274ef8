"""The description of a parameter: a row of a table. Does not import pyspark.

Accessors, the fields of `FitConfig` and the documentation are generated from the rows by
`scripts/generate_params.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset()
"""The default of a parameter without one."""


@dataclass(frozen=True, slots=True)
class Row:
    """A parameter.

    Attributes:
        name: In camelCase, as pyspark.ml has it; `snake` is its second spelling.
        default: Its value if none is set; `UNSET` for none.
        convert: Checks a given value and returns it as it is stored; raises if it is invalid.
        type: The annotation of its value.
        doc: Its description, for `explainParams` and the documentation.
        get: The first line of its getter's docstring.
        takes: The annotation of its setter's argument, if wider than `type`.
        see: A link to a page with more information.
        decides: Whether it decides what is learnt: with another value, a checkpoint is of another
            training.
        needs: The parameter without which it has no effect; "" for none.
        needed: The text of the error for a parameter that was set without this one, which it needs;
            "" for the usual text.
        of_rows: Whether it decides which rows are trained on or how they are read: trainings that
            agree on all such parameters may share their rows.
    """

    name: str
    default: Any
    convert: Callable[[Any], Any]
    type: str
    doc: str
    get: str = ""
    takes: str = ""
    see: str = ""
    decides: bool = True
    needs: str = ""
    needed: str = ""
    of_rows: bool = False

    @property
    def snake(self) -> str:
        """The second spelling."""
        return snake_case(self.name)

    @property
    def title(self) -> str:
        """The name as used after `get` and `set` in accessors."""
        return self.name[0].upper() + self.name[1:]


@dataclass(frozen=True, slots=True)
class Group:
    """The parameters of one class.

    Attributes:
        name: The class.
        doc: Its docstring.
        rows: The parameters.
        bases: The base classes.
    """

    name: str
    doc: str
    rows: tuple[Row, ...]
    bases: str = "ParamAliases"

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The default values by name."""
        return {row.name: row.default for row in self.rows if row.default is not UNSET}


def camel_case(name: str) -> str:
    """Converts `features_col` to `featuresCol`; returns names without underscores unchanged."""
    return re.sub(r"_([a-z])", lambda match: match.group(1).upper(), name)


def snake_case(name: str) -> str:
    """Converts `featuresCol` to `features_col`."""
    return re.sub(r"[A-Z]", lambda match: f"_{match.group(0).lower()}", name)
