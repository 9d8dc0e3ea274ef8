"""Params that can also be written in snake_case (`features_col` for `featuresCol`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, TypeVar

from pyspark.ml.param import Param, Params

from sparkflow._api.unknown_names import closest
from sparkflow.spark.params.converters import workers_pair
from sparkflow.spark.params.row import UNSET, Row, camel_case

Self = TypeVar("Self", bound="ParamAliases")


class ParamAliases(Params):
    """Params whose names can also be written in snake_case."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {}
    """The default values of this class's own Params; its bases define theirs."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        cls.__signature__ = _signature(cls)  # type: ignore[attr-defined]  # what `help` looks at

    def __init__(self) -> None:
        super().__init__()
        for base in reversed(type(self).__mro__):
            self._setDefault(**base.__dict__.get("DEFAULTS", {}))

    def __getattr__(self, name: str) -> Any:
        # Called only for names that are not found otherwise.
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
        # The attribute would hide the Param, and its value would never be used.
        known = getattr(type(self), camel_case(name), None)
        if isinstance(known, Param) and not isinstance(value, Param):
            raise AttributeError(
                f"{type(self).__name__}.{name} is a parameter, which is set by "
                f"setParams({known.name}={value!r}) or set{known.name[0].upper()}{known.name[1:]}"
                f"({value!r})"
            )
        super().__setattr__(name, value)

    def copy(self: Self, extra: Any = None) -> Self:
        """Returns a copy with other values of some parameters.

        Args:
            extra: Values by Param, or by its name in either spelling.

        Raises:
            TypeError: There is no parameter of this name.
        """
        if isinstance(extra, Mapping):
            extra = {
                self.getParam(self._known(key)) if isinstance(key, str) else key: value
                for key, value in extra.items()
            }
        return super().copy(extra)

    def setParams(self: Self, **params: Any) -> Self:
        """Sets parameters, in camelCase or snake_case.

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
        """Returns the name of a parameter in camelCase."""
        name = camel_case(given)
        if not self.hasParam(name):
            known = sorted(param.name for param in self.params)
            advice = _meant(given, known)
            if not advice:
                if self.hasParam("modelParams") and not self.hasParam("optimizer"):
                    advice = f" What model_fn has to know goes into modelParams={{{given!r}: ...}}."
                advice += f" It has {', '.join(known)}"
            raise TypeError(f"{type(self).__name__} has no parameter {given!r}.{advice}")
        return name

    def _table_rows(self) -> list[Row]:
        """Returns the table rows of the Params, some of which may be pyspark.ml's own."""
        return [param.row for param in self.params if isinstance(param, TableParam)]

    def _set(self: Self, **params: Any) -> Self:
        # pyspark's own version skips None, and its ValueError does not name the parameter.
        pair = params.get("numWorkers")
        if isinstance(pair, tuple | list) and self.hasParam("minWorkers"):
            least, most = workers_pair(pair)
            params = {**params, "numWorkers": most, "minWorkers": least}
        for name, value in params.items():
            param = self.getParam(name)
            self._paramMap[param] = param.typeConverter(value)
        return self


def _meant(name: str, known: Iterable[str]) -> str:
    close = closest(name, known)
    return f" Did you mean {' or '.join(close)}?" if close else ""


class TableParam(Param[Any]):
    """Creates the Param of a row; its errors about values include the Param's name."""

    def __init__(self, row: Row) -> None:
        super().__init__(Params._dummy(), row.name, row.doc, _named(row.name, row.convert))
        self.row = row


def param(row: Row) -> Any:
    """The Param of a row."""
    return TableParam(row)


def _named(name: str, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def converter(value: Any) -> Any:
        try:
            return convert(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None

    return converter


def _signature(kind: type[ParamAliases]) -> inspect.Signature:
    """The constructor's signature with `**params` expanded, for `help` and completion."""
    signature = inspect.signature(kind.__init__)
    own = [each for each in list(signature.parameters.values())[1:] if each.kind != _REST]
    if len(own) + 1 == len(signature.parameters):
        return signature.replace(parameters=own)
    defaults: dict[str, Any] = {}
    names: set[str] = set()
    for base in reversed(kind.__mro__):
        names |= {name for name, value in vars(base).items() if isinstance(value, Param)}
        defaults |= vars(base).get("DEFAULTS", {})
    spelt = (
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name, UNSET))
        for name in sorted(names)
    )
    return signature.replace(parameters=[*own, *spelt])


_REST = inspect.Parameter.VAR_KEYWORD
