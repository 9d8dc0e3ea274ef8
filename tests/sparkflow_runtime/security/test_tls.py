import json
import ssl
import tempfile
from pathlib import Path

import pytest

from sparkflow_runtime.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError
from sparkflow_runtime.security import Tls
from sparkflow_runtime.security.certificates import Authority


@pytest.fixture(scope="module")
def tls() -> Tls:
    return Authority.create().issue("/job:ps/replica:0/task:0")


def test_files_are_written_and_read(tls: Tls, tmp_path: Path) -> None:
    tls.save(tmp_path)
    paths = [tmp_path / name for name in ("ca.pem", "certificate.pem", "key.pem")]
    assert sorted(tmp_path.iterdir()) == paths
    assert paths[2].stat().st_mode & 0o777 == 0o600
    assert Tls.from_files(*paths, server_name=tls.server_name) == tls
    assert Tls.from_files(*paths).server_name == ""


def test_a_folder_is_made_for_this_user_only(tls: Tls, tmp_path: Path) -> None:
    tls.save(tmp_path / "new" / "folder")
    assert (tmp_path / "new" / "folder").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new" / "folder" / "key.pem").stat().st_mode & 0o777 == 0o600


def test_no_disk_has_the_key(tls: Tls, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("a file was made")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refuse)
    assert tls.server_context().get_ca_certs()


def test_no_file_is_overwritten(tls: Tls, tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(b"mine")
    with pytest.raises(AlreadyExistsError, match=r"key\.pem exists: remove it"):
        tls.save(tmp_path)
    assert (tmp_path / "key.pem").read_bytes() == b"mine"


def test_another_process_gets_all_of_it(tls: Tls) -> None:
    assert Tls.from_export(json.loads(json.dumps(tls.export()))) == tls


def test_a_missing_file_is_named(tls: Tls, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_bytes(tls.ca)
    with pytest.raises(NotFoundError, match=r"missing\.pem, which TLS needs: No such file"):
        Tls.from_files(there, there, tmp_path / "missing.pem")


def test_what_is_no_pem_is_refused(tls: Tls) -> None:
    other = Authority.create().issue("other")
    for wrong in (
        (b"", tls.certificate, tls.key),
        (b"\xff", tls.certificate, tls.key),
        (tls.ca, b"certificate", tls.key),
        (tls.ca, tls.certificate, b""),
        (tls.ca, tls.certificate, other.key),
    ):
        with pytest.raises(InvalidArgumentError, match="TLS needs a certificate, its private key"):
            Tls(*wrong)


def test_a_key_with_a_passphrase_is_refused_and_not_asked_for(tls: Tls) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(tls.key, None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    with pytest.raises(InvalidArgumentError, match="without a passphrase"):
        Tls(tls.ca, tls.certificate, locked)


def test_the_key_is_not_shown_and_leaves_no_file(
    tls: Tls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert b"PRIVATE" in tls.key
    assert "PRIVATE" not in repr(tls)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tls.server_context()
    tls.client_context()
    assert list(tmp_path.iterdir()) == []


def test_both_sides_verify_and_speak_tls_1_3_only(tls: Tls) -> None:
    for context in (tls.server_context(), tls.client_context()):
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert tls.client_context().check_hostname
