"""Hyperparameters: how text is parsed, and which values do not fit their type."""

import json
from typing import Any

import pytest

from sparkflow.contrib.training.hparams import HParams, parse_values

TYPES: dict[str, type] = {"rate": float, "units": int, "use": bool, "name": str, "free": type(None)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("rate=0.1", {"rate": 0.1}),
        (" rate = 1e-3 , units=3,", {"rate": 1e-3, "units": 3}),
        ("units=[1,2, 3]", {"units": [1, 2, 3]}),
        ("units=[]", {"units": []}),
        ("units[2]=5,units[0]=1", {"units": {2: 5, 0: 1}}),
        ("use=true", {"use": True}),
        ("use=0", {"use": False}),
        ("name=a b,use=False", {"name": "a b", "use": False}),
        ("name=", {"name": ""}),
        ("free=7", {"free": "7"}),
    ],
)
def test_text(text: str, found: dict[str, Any]) -> None:
    parsed = parse_values(text, TYPES)
    assert parsed == found
    assert [type(each) for each in parsed.values()] == [type(each) for each in found.values()]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("units", "Malformed hyperparameter value: units"),
        ("units=3 rate", "Could not parse hparam 'units' of type 'int' from text '3 rate'"),
        ("units=3.5", "from text '3.5'"),
        ("use=yes", "of type 'bool' from text 'yes'"),
        ("other=1", "Unknown hyperparameter type for other"),
        ("rate=1,rate=2", "Multiple assignments to variable 'rate'"),
        ("units[1]=1,units[1]=2", "Multiple assignments"),
        ("units=1,units[1]=2", "Multiple assignments"),
        ("units[1]=1,units=2", "Multiple assignments"),
        ("units[1]=[2]", r"Can't assign a list to one element: units\[1\]"),
    ],
)
def test_text_that_is_none(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_values(text, TYPES)


def test_unknown_names_may_be_left_out() -> None:
    assert parse_values("other=[1],rate=2", TYPES, ignore_unknown=True) == {"rate": 2.0}


def params() -> HParams:
    return HParams(rate=0.1, units=[1, 2, 3], use=True, name="a", free=None)


def test_values_change_and_keep_their_types() -> None:
    found = params().parse("rate=1,units[1]=7,use=false,name=b")
    assert found.values() == {
        "rate": 1.0,
        "units": [1, 7, 3],
        "use": False,
        "name": "b",
        "free": None,
    }
    assert json.loads(found.to_json()) == found.values()
    assert params().parse_json(found.to_json()).values() == found.values()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rate", True),
        ("rate", "1"),
        ("use", 1),
        ("name", 3),
        ("units", [1.5]),
        ("units", 3),
        ("rate", [1.0]),
    ],
)
def test_values_of_other_types_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"cast|list"):
        params().set_hparam(name, value)


def test_elements_that_are_not_there() -> None:
    assert params().parse("units[2]=9").units == [1, 2, 9]  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"units\[3\]: there are 3 elements"):
        params().parse("units[3]=9")


def test_names() -> None:
    found = params()
    assert "rate" in found
    assert found.get("rate", 2.0) == 0.1
    assert found.get("other", "x") == "x"
    for name, default in (("rate", "x"), ("rate", [1.0]), ("units", 1)):
        with pytest.raises(ValueError, match=r"lists|cast"):
            found.get(name, default)
    found.del_hparam("rate")
    assert "rate" not in found
    with pytest.raises(KeyError):
        found.set_hparam("rate", 1.0)
    for name in ("units", "parse"):
        with pytest.raises(ValueError, match=f"is reserved: {name}"):
            found.add_hparam(name, 1)
    with pytest.raises(ValueError, match="cannot be empty"):
        found.add_hparam("more", [])
