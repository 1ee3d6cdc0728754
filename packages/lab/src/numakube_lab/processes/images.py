"""Which containers are numakube's own."""

from __future__ import annotations

from typing import Final

OWN: Final = "numakube"
"""The last part of the image's name, wherever it is kept and whatever its tag is."""


def is_own(image: str) -> bool:
    """Tell whether *image* is numakube's own.

    >>> is_own("registry.example:5000/team/numakube:1.2@sha256:0f")
    True
    >>> is_own("numakube-exporter")
    False
    """
    name = image.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[0] == OWN
