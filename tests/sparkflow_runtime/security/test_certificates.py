import subprocess
import sys

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from sparkflow_runtime.security.certificates import SERVER_NAME, Authority


def test_certificates_are_signed_by_the_authority_and_have_keys_of_their_own() -> None:
    authority = Authority.create()
    root = x509.load_pem_x509_certificate(authority.certificate)
    one, two = authority.issue("/job:ps/replica:0/task:0"), authority.issue("x" * 100)
    assert one.key != two.key
    for tls in (one, two):
        assert tls.ca == authority.certificate
        assert tls.server_name == SERVER_NAME
        certificate = x509.load_pem_x509_certificate(tls.certificate)
        certificate.verify_directly_issued_by(root)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        assert names.value.get_values_for_type(x509.DNSName) == [SERVER_NAME]
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        assert constraints.critical
        assert not constraints.value.ca


def test_authorities_are_apart_and_do_not_show_their_keys() -> None:
    one, two = Authority.create(), Authority.create()
    assert one.certificate != two.certificate
    public = x509.load_pem_x509_certificate(one.certificate).public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    assert "PrivateKey" not in repr(one)


def test_without_cryptography_the_error_says_what_to_install() -> None:
    code = """
import sys
sys.modules["cryptography"] = None
import sparkflow_runtime.security  # needs nothing
import sparkflow_runtime.security.certificates
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1
    assert (
        "needs cryptography, which is not installed: pip install 'sparkflow-ml[tls]'" in ran.stderr
    )
