"""A certificate authority of the lab's own, for HTTPS and for nothing else."""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

_AUTHORITY_LIFE: Final = timedelta(days=3650)
_SERVER_LIFE: Final = timedelta(days=365)
_CLOCK_SKEW: Final = timedelta(hours=1)
SERVICE_NAMES: Final = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority: its certificate, and the key that it signs with."""

    certificate: bytes
    key: bytes

    @classmethod
    def create(cls, now: datetime) -> Authority:
        """Make a new authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("numakube-lab-ca")
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = _builder(name, name, key, now, _AUTHORITY_LIFE)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(usage, True).add_extension(identifier, False)
        signed = builder.sign(key, hashes.SHA256())
        return cls(signed.public_bytes(serialization.Encoding.PEM), _pem(key))

    def issue(self, names: Iterable[str], now: datetime) -> tuple[bytes, bytes]:
        """Return a certificate of a server that is reached by *names*, and its key."""
        authority = x509.load_pem_x509_certificate(self.certificate)
        signer = serialization.load_pem_private_key(self.key, None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)  # noqa: S101 - made by create()
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name("numakube-lab"), authority.subject, key, now, _SERVER_LIFE)
        purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        builder = builder.add_extension(x509.SubjectAlternativeName(_alternatives(names)), False)
        builder = builder.add_extension(purpose, False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
        builder = builder.add_extension(issuer, False)
        signed = builder.sign(signer, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM), _pem(key)


def server_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Return the TLS settings of a server with that certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    # The standard library reads certificates from files only.
    with tempfile.TemporaryDirectory(prefix="numakube-lab-") as folder:
        path = Path(folder) / "server.pem"
        path.touch(mode=0o600)
        path.write_bytes(certificate + key)
        context.load_cert_chain(path)
    return context


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    life: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + life)
    )


def _alternatives(names: Iterable[str]) -> list[x509.GeneralName]:
    found: list[x509.GeneralName] = []
    for name in dict.fromkeys((*names, *SERVICE_NAMES)):
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return found


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
