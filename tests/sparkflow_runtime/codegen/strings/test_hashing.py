"""Hashes in machine code against numpy, and against published ones."""

from __future__ import annotations

import numpy as np
import pytest

from sparkflow_runtime.codegen.strings import hashing
from sparkflow_runtime.codegen.strings.hashing import Hash
from support.string_samples import SAMPLES

KEY = (3, (1 << 64) - 5)


@pytest.mark.parametrize("function", Hash)
def test_hashes_of_machine_code_and_numpy_agree(function: Hash) -> None:
    expected = [hashing.hash_of(function, each, KEY) for each in SAMPLES]
    assert hashing.hashed(function, SAMPLES, KEY).tolist() == expected


def test_hashes_are_those_of_the_references() -> None:
    # Farmhash's Fingerprint64 and SipHash-2-4 of the papers' test vectors.
    assert hashing.hash_of(Hash.FARM, b"") == 0x9AE16A3B2F90404F
    key = np.frombuffer(bytes(range(16)), "<u8").tolist()
    assert hashing.hash_of(Hash.SIP, bytes(range(15)), key) == 0xA129CA6149BE45E5
