"""Tests that the search for secrets finds them."""

import base64
import os
from pathlib import Path

import pyarrow as pa
import pytest

from support.listening import forms, where

SECRET = b"9f3b-the-token-of-a-job"


@pytest.mark.parametrize("before", range(4))
def test_a_secret_is_found_in_whatever_form_it_has(tmp_path: Path, before: int) -> None:
    text = b"x" * before + SECRET + b"y" * before
    written = {
        "plain": text,
        "digits": text.hex().encode(),
        "base64": base64.b64encode(text),
        "utf16": text.decode().encode("utf-16-le"),
        "log.zstd": bytes(pa.compress(text, codec="zstd", asbytes=True)),
        "nothing": b"x" * 100,
    }
    for name, content in written.items():
        (tmp_path / name).write_bytes(content)
    found = where([SECRET], [os.getpid()], [tmp_path])
    assert {Path(each).name for each in found} == written.keys() - {"nothing"}
    assert min(map(len, forms(SECRET))) >= len(SECRET)
