"""Params that may be written in snake_case as well (`features_col` for `featuresCol`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from pyspark.ml.param import Param, Params

from sparkflow.unknown_names import closest

Self = TypeVar("Self", bound="ParamAliases")


def camel_case(name: str) -> str:
    """`features_col` as `featuresCol`; a name without underscores is returned as it is."""
    return re.sub(r"_([a-z])", lambda match: match.group(1).upper(), name)


class ParamAliases(Params):
    """Params whose names may be written in snake_case as well."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {}
    """The default values of the Params of this class; those of its bases are theirs to say."""

    def __init__(self) -> None:
        super().__init__()
        for base in reversed(type(self).__mro__):
            self._setDefault(**base.__dict__.get("DEFAULTS", {}))

    def __getattr__(self, name: str) -> Any:
        # Called only for what is not found otherwise.
        other = camel_case(name)
        if (
            other != name
            and not name.startswith("_")
            and isinstance(getattr(type(self), other, None), Param)
        ):
            return getattr(self, other)
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}."
            f"{_meant(name, [each for each in dir(type(self)) if not each.startswith('_')])}"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        # It would hide the Param, and the value would never be used.
        known = getattr(type(self), camel_case(name), None)
        if isinstance(known, Param) and not isinstance(value, Param):
            raise AttributeError(
                f"{type(self).__name__}.{name} is a parameter, which is set by "
                f"setParams({known.name}={value!r}) or set{known.name[0].upper()}{known.name[1:]}"
                f"({value!r})"
            )
        super().__setattr__(name, value)

    def copy(self: Self, extra: Any = None) -> Self:
        """A copy with other values of some parameters.

        Args:
            extra: Values by Param, or by its name in either spelling.

        Raises:
            TypeError: There is no parameter of such a name.
        """
        if isinstance(extra, Mapping):
            extra = {
                self.getParam(self._known(key)) if isinstance(key, str) else key: value
                for key, value in extra.items()
            }
        return super().copy(extra)

    def setParams(self: Self, **params: Any) -> Self:
        """Sets the parameters that are given, in either spelling.

        Raises:
            TypeError: There is no such parameter, it is given in both spellings, or its value has
                a wrong type.
            ValueError: A value is not allowed.
        """
        found: dict[str, Any] = {}
        for given, value in params.items():
            name = self._known(given)
            if name in found:
                raise TypeError(f"the parameter {name!r} is given twice")
            found[name] = value
        self._set(**found)
        return self

    def _known(self, given: str) -> str:
        """The name of a parameter in its first spelling."""
        name = camel_case(given)
        if not self.hasParam(name):
            known = sorted(param.name for param in self.params)
            advice = _meant(given, known)
            if not advice and self.hasParam("modelParams") and not self.hasParam("optimizer"):
                advice = f" What model_fn has to know goes into modelParams={{{given!r}: ...}}."
            raise TypeError(
                f"{type(self).__name__} has no parameter {given!r}.{advice} It has "
                f"{', '.join(known)}"
            )
        return name

    def _set(self: Self, **params: Any) -> Self:
        # pyspark's own leaves out None and hides the parameter's name in a ValueError.
        for name, value in params.items():
            param = self.getParam(name)
            self._paramMap[param] = param.typeConverter(value)
        return self


def _meant(name: str, known: Iterable[str]) -> str:
    close = closest(name, known)
    return f" Did you mean {' or '.join(close)}?" if close else ""
