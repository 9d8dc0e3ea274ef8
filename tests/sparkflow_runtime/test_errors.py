import pickle

import pytest

from sparkflow_runtime import errors
from sparkflow_runtime.errors import Code, InvalidArgumentError, OpError

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, OpError) and value is not OpError
]


def test_every_code_but_ok_has_one_class() -> None:
    assert len(CLASSES) == 16
    assert {cls.error_code for cls in CLASSES} == set(Code) - {Code.OK}


@pytest.mark.parametrize("cls", CLASSES)
def test_status_round_trip(cls: type[OpError]) -> None:
    code, text = errors.to_status(cls(message="what happened"))
    back = errors.from_status(code, text)
    assert type(back) is cls
    assert back.message == str(back) == "what happened"
    assert errors.exception_type_from_error_code(code) is cls
    assert errors.error_code_from_exception_type(cls) is cls.error_code


def test_place_is_added_once_and_never_to_what_arrived_from_elsewhere() -> None:
    error = InvalidArgumentError(message="bad")
    assert str(error.at("[[node 'inner']]").at("[[node 'outer']]")) == "bad\n\t [[node 'inner']]"
    assert str(errors.from_status(3, "bad").at("[[node 'x']]")) == "bad"


def test_foreign_exceptions_become_statuses() -> None:
    assert errors.to_status(ZeroDivisionError("by zero")) == (
        Code.UNKNOWN,
        "ZeroDivisionError: by zero",
    )
    assert errors.to_status(MemoryError("8 GiB"))[0] is Code.RESOURCE_EXHAUSTED
    assert type(errors.from_status(99, "?")) is errors.UnknownError
    assert errors.error_code_from_exception_type(KeyError) is Code.UNKNOWN


def test_errors_can_be_pickled() -> None:
    back = pickle.loads(pickle.dumps(InvalidArgumentError(message="bad").at("here")))  # noqa: S301
    assert type(back) is InvalidArgumentError
    assert str(back) == "bad\n\t here"


def test_a_missing_package_is_named_with_its_extra_and_what_does_without() -> None:
    errors.require_package("This test", "pytest", "dev")
    with pytest.raises(ModuleNotFoundError) as raised:
        errors.require_package("A dream", "no_such_package", "dev", "stay awake")
    assert raised.value.name == "no_such_package"
    assert str(raised.value) == (
        "A dream needs no_such_package, which is not installed: "
        "pip install 'sparkflow-ml[dev]', or stay awake"
    )
