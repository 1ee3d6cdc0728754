"""The base of every wire type, and the aliases all of them share.

Structs are frozen and not tracked by the cyclic collector: an API object is a tree. Unknown fields
are ignored on reading and defaults are left out on writing. Names are camelCased, which is wrong
for acronyms (``hostIP``): such fields name themselves with ``msgspec.field(name=...)``.
"""

from collections.abc import Mapping
from functools import partial
from typing import TypeAlias

import msgspec

QuantityText: TypeAlias = str | int | float
"""A quantity as it stands in JSON or YAML; numbers appear in hand-written YAML and in CRDs."""

ResourceList: TypeAlias = Mapping[str, QuantityText]
"""Resource name to quantity, as in ``requests`` and ``limits``."""

Timestamp: TypeAlias = str
"""A time in RFC 3339, kept as it came: `numakube.values.times` reads and writes it."""

DurationText: TypeAlias = str
"""A duration in Go's notation (``1m30s``): `numakube.values.durations` reads and writes it."""


class Wire(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """Base of all wire types."""


def always(text: str) -> str:
    """Declare a field that has the default *text* and is written nevertheless.

    For ``kind`` and ``apiVersion``, which the items of a list leave out and requests must have.
    """
    # msgspec leaves out a plain default, but never what a factory made.
    field: str = msgspec.field(default_factory=partial(str, text))
    return field
