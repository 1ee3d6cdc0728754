"""The base of every wire type, and the two aliases all of them share.

Structs are frozen and not tracked by the cyclic collector: an API object is a tree. Unknown fields
are ignored on reading and defaults are left out on writing. Names are camelCased, which is wrong
for acronyms (``hostIP``): such fields name themselves with ``msgspec.field(name=...)``.
"""

from typing import TypeAlias

import msgspec

QuantityText: TypeAlias = str | int | float
"""A quantity as it stands in JSON or YAML; numbers appear in hand-written YAML and in CRDs."""

ResourceList: TypeAlias = dict[str, QuantityText]
"""Resource name to quantity, as in ``requests`` and ``limits``."""


class Wire(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Base of all wire types."""
