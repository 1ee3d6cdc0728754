"""Who sends a request: bearer tokens, those that the server signs itself, and anonymous users."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from numakube_lab.api.wire.refusals import unauthorized

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube_lab.kinds import Json

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
class Authenticator:
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
