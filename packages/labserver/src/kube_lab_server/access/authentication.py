"""Who sends a request: bearer tokens, those that the server signs itself, and anonymous users.

A certificate authority of the lab's own, for HTTPS and for nothing else.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import json
import ssl
import tempfile
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kube_lab_server.wire.refusals import unauthorized

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from kube_lab_server.kind_names import Json


ANONYMOUS: Final = "system:anonymous"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
MASTERS: Final = "system:masters"


@dataclass(frozen=True, slots=True)
class User:
    """The sender of a request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def info(self) -> Json:
        """Return the user as reviews show them."""
        info: Json = {"username": self.name}
        if self.uid:
            info["uid"] = self.uid
        if self.groups:
            info["groups"] = list(self.groups)
        if self.extra:
            info["extra"] = {key: list(values) for key, values in self.extra}
        return info


NOBODY: Final = User(ANONYMOUS, "", (UNAUTHENTICATED,))


class TokenSource(Protocol):
    """Something that knows bearer tokens, such as those of service accounts."""

    def user_of(self, token: str) -> User | None:
        """Return whose token it is."""
        ...


@dataclass
class TokenAuthenticator:
    """Tells users by their bearer tokens."""

    users: Mapping[str, User]
    anonymous: bool = True
    sources: list[TokenSource] = field(default_factory=list)

    def user_of(self, token: str) -> User | None:
        """Return whose token it is, in the group of known users too; None for an unknown token."""
        user = self.users.get(token)
        for source in self.sources:
            user = user or source.user_of(token)
        if user is None or AUTHENTICATED in user.groups:
            return user
        return User(user.name, user.uid, (*user.groups, AUTHENTICATED), user.extra)

    def authenticate(self, authorization: str | None) -> User:
        """Return who sends a request with that ``Authorization`` header."""
        scheme, _, token = (authorization or "").strip().partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            user = self.user_of(token.strip())
        else:
            user = NOBODY if self.anonymous else None
        if user is None:
            raise unauthorized()
        return user


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs and checks JSON web tokens with a secret of the server's own."""

    secret: bytes

    def sign(self, claims: Json) -> str:
        """Return the token that makes *claims*."""
        head = _encode(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
        body = _encode(json.dumps(claims, separators=(",", ":")).encode())
        return f"{head}.{body}.{_encode(self._mac(f'{head}.{body}'))}"

    def claims(self, token: str) -> Json | None:
        """Return what a token claims; None if the server did not sign it."""
        signed, _, signature = token.rpartition(".")
        try:
            if not hmac.compare_digest(_decode(signature), self._mac(signed)):
                return None
            claims: Json = json.loads(_decode(signed.partition(".")[2]))
        except (ValueError, binascii.Error):
            return None
        return claims

    def _mac(self, text: str) -> bytes:
        return hmac.digest(self.secret, text.encode(), hashlib.sha256)


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


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
