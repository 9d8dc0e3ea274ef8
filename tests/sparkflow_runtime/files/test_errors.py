import errno
import os

import pytest

from sparkflow_runtime import errors
from sparkflow_runtime.files.errors import kind_of, translated


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOENT, errors.NotFoundError),
        (errno.EEXIST, errors.AlreadyExistsError),
        (errno.EACCES, errors.PermissionDeniedError),
        (errno.EROFS, errors.PermissionDeniedError),
        (errno.EISDIR, errors.FailedPreconditionError),
        (errno.ENOTEMPTY, errors.FailedPreconditionError),
        (errno.ENAMETOOLONG, errors.InvalidArgumentError),
        (errno.ENOSPC, errors.ResourceExhaustedError),
        (errno.EMFILE, errors.ResourceExhaustedError),
        (errno.EIO, errors.UnknownError),
    ],
)
def test_the_number_says_the_class(number, kind):
    with pytest.raises(errors.OpError) as raised, translated("/some/path"):
        raise OSError(number, os.strerror(number))
    assert type(raised.value) is kind
    assert raised.value.message == f"/some/path; {os.strerror(number)}"
    assert isinstance(raised.value.__cause__, OSError)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FileNotFoundError("x"), errors.NotFoundError),
        (PermissionError("x"), errors.PermissionDeniedError),
        (FileExistsError("x"), errors.AlreadyExistsError),
        (OSError("x"), errors.UnknownError),
    ],
)
def test_classes_say_it_where_there_is_no_number(error, kind):
    assert error.errno is None  # as raised by pyarrow
    assert kind_of(error) is kind


def test_a_path_with_a_zero_byte_is_an_invalid_argument():
    with pytest.raises(errors.InvalidArgumentError, match="null byte"), translated("a\0b"):
        open("a\0b")  # noqa: SIM115  (raises)


def test_other_errors_pass():
    with pytest.raises(KeyError), translated("p"):
        raise KeyError("p")
