"""Certificates that servers show, read again when their files change.

Kubernetes replaces mounted secrets under a running process, so every handshake looks whether the
files are the ones that were read; a pair that cannot be used keeps the last good one in force.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from numakube.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()

VERSIONS: Final = {
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
"""Versions of TLS under the names that Kubernetes components give them; older ones are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """What a server needs for HTTPS, as files in PEM form.

    Attributes:
        certificate: the certificate with its chain.
        key: its key.
        client_authority: if given, clients must show a certificate of this authority.
        min_version: the least version of TLS, a key of `VERSIONS`.
    """

    certificate: Path
    key: Path
    client_authority: Path | None = None
    min_version: str = "VersionTLS12"


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a context that follows changes of *files*.

    Raises:
        ConfigError: the files cannot be used.
    """
    if files.min_version not in VERSIONS:
        known = ", ".join(VERSIONS)
        raise ConfigError(f"TLS version {files.min_version!r} is not supported; known: {known}")
    return _Pair(files).first


class _Pair:
    """A certificate and its key as they were read last."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen = _moment(files)
        self.first = self._current = self._read()
        self.first.sni_callback = self._on_handshake

    def _on_handshake(
        self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _: ssl.SSLContext
    ) -> None:
        moment = _moment(self._files)
        if moment != self._seen:
            self._seen = moment
            self._refresh()
        connection.context = self._current

    def _refresh(self) -> None:
        try:
            self._current = self._read()
        except ConfigError as error:
            _log.warning("certificate_not_replaced", error=str(error))

    def _read(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = VERSIONS[files.min_version]
        try:
            context.load_cert_chain(files.certificate, files.key)
            if files.client_authority is not None:
                context.load_verify_locations(files.client_authority)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ValueError) as error:  # SSLError is an OSError
            what = f"{files.certificate}, {files.key}"
            raise ConfigError(f"cannot serve HTTPS with {what}: {error}") from None
        return context


def _moment(files: TlsFiles) -> tuple[int, ...]:
    """Return what changes when a file is replaced; files that are missing are not there yet."""
    try:
        paths = (files.certificate, files.key, files.client_authority)
        return tuple(path.stat().st_mtime_ns for path in paths if path is not None)
    except OSError:
        return ()
