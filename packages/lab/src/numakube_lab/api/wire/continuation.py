"""Continue tokens: where a list in pages goes on, and at which version."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Final

from numakube.values.gotext import go_quote
from numakube_lab.api.wire.refusals import Refusal, bad_request

_FORMAT: Final = "meta.k8s.io/v1"
_ALPHABET: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")

INCONSISTENT: Final = -1
"""Stands for "the newest version", in the token that an expired one is replaced by."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """A list goes on at the path *start* of the version *version*."""

    version: int
    start: str

    def token(self) -> str:
        """Return the token that a client sends back."""
        text = json.dumps(
            {"v": _FORMAT, "rv": self.version, "start": self.start}, separators=(",", ":")
        )
        return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def parse_continuation(token: str) -> Continuation:
    """Read a token."""
    for position, character in enumerate(token):
        if character not in _ALPHABET:
            raise _invalid(f"illegal base64 data at input byte {position}")
    try:
        fields = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        version, start, form = int(fields["rv"]), str(fields["start"]), fields.get("v", "")
    except (binascii.Error, ValueError, KeyError, TypeError):
        raise _invalid(f"illegal base64 data at input byte {len(token)}") from None
    if form != _FORMAT:
        raise _invalid(f"server does not recognize this encoded version {go_quote(str(form))}")
    return Continuation(version, start)


def _invalid(why: str) -> Refusal:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")
