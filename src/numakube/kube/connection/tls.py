"""TLS towards the API server, as tolerant as kubectl and no more.

Python 3.13 verifies certificates more strictly than Go does and refuses cluster CAs made by older
tools (no key usage, no authority key identifier), so that strictness is switched off; and, as in
Go, any certificate of the bundle is an anchor of trust, not only self-signed ones.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class CertificatePair:
    """A client certificate (with its chain) and its key, both in PEM form."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


def client_context(
    *, authority: bytes | None, insecure: bool = False, pair: CertificatePair | None = None
) -> ssl.SSLContext:
    """Return the context for connections to one API server.

    Args:
        authority: the certificates to trust, in PEM form; None means those of the system.
        insecure: trust anybody.
        pair: the certificate to show to the server.
    """
    context = _trusting(authority)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if pair is not None:
        _show(context, pair)
    return context


def _trusting(authority: bytes | None) -> ssl.SSLContext:
    if authority is None:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=authority.decode("ascii"))
    except (ssl.SSLError, ValueError) as exc:
        raise ConfigError(f"certificate-authority: not a certificate in PEM form: {exc}") from exc


def _show(context: ssl.SSLContext, pair: CertificatePair) -> None:
    try:
        with _as_file(pair.certificate + b"\n" + pair.key) as path:
            context.load_cert_chain(path, password=_refuse_password)
    except (ssl.SSLError, ValueError) as exc:
        raise ConfigError(f"client certificate or its key cannot be used: {exc}") from exc


def _refuse_password() -> str:
    """Fail where OpenSSL would otherwise ask on the terminal."""
    raise ValueError("the key is encrypted; Kubernetes clients need it in the clear")


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Lend *content* a path, because OpenSSL reads keys from files only.

    In memory where the system can: our images have a read-only file system, and a key should not
    touch a disk.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb") as memory:
            memory.write(content)
            memory.flush()
            yield f"/proc/self/fd/{descriptor}"
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
