"""A digest of a configuration on pods that read it, so that they start anew when it changes."""

from __future__ import annotations

import hashlib
from typing import Final

HASH: Final = "configmap.hash"
"""The annotation."""


def hash_of(data: dict[str, str]) -> str:
    """Return a digest of a ConfigMap's content."""
    text = "\0".join(f"{key}\0{data[key]}" for key in sorted(data))
    return f"SHA256:{hashlib.sha256(text.encode()).hexdigest()}"
