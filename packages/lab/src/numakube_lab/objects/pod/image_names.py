"""Names of container images, as far as defaulting needs them: is the tag ``latest``?"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST_PART: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST: Final = rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_TAG: Final = r"\w[\w.-]{0,127}"
_DIGEST: Final = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_match_image: Final = re.compile(
    rf"(?P<host>{_HOST}/)?(?P<path>{_PART}(?:/{_PART})*)(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?",
    re.ASCII,
).fullmatch
_match_identifier: Final = re.compile(r"[a-f0-9]{64}").fullmatch
_MAX_NAME: Final = 255


@lru_cache(maxsize=4096)
def is_latest(image: str) -> bool:
    """Tell whether *image* has the tag ``latest`` or neither tag nor digest.

    A name that cannot be parsed has no tag at all.
    """
    match = _match_image(image)
    if match is None or _match_identifier(image):
        return False
    host = (match["host"] or "").rstrip("/")
    if host and not _is_host(host):
        return False
    if len(host) + len(match["path"]) > _MAX_NAME:
        return False
    return match["tag"] == "latest" or not (match["tag"] or match["digest"])


def _is_host(text: str) -> bool:
    """Tell whether the first part of a name is a registry, not a directory of the default one."""
    return "." in text or ":" in text or text == "localhost" or text.lower() != text


def default_pull_policy(image: str) -> str:
    """Return when *image* is pulled if nothing is said."""
    return "Always" if is_latest(image) else "IfNotPresent"
