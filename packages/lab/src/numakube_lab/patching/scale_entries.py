"""``managedFields`` of the scale subresource: a view of who manages the replicas of its parent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube_lab.patching.field_sets import contains, difference, of_paths
from numakube_lab.patching.managers import Share, decode, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SCALE_VERSION: Final = "autoscaling/v1"
REPLICAS_IN_SCALE: Final = ("f:spec", "f:replicas")


def to_scale(
    entries: Iterable[dict[str, Any]] | None, replicas: Sequence[str] = REPLICAS_IN_SCALE
) -> list[dict[str, Any]]:
    """Return the entries of the parent that own its *replicas*, as entries of its scale."""
    return encode(
        {
            manager: Share(of_paths(REPLICAS_IN_SCALE), SCALE_VERSION, share.time)
            for manager, share in decode(entries).items()
            if contains(share.fields, replicas)
        }
    )


def to_parent(
    parent: Iterable[dict[str, Any]] | None,
    scale: Iterable[dict[str, Any]] | None,
    *,
    api_version: str,
    replicas: Sequence[str] = REPLICAS_IN_SCALE,
) -> list[dict[str, Any]]:
    """Return the entries of the parent after those of its scale became *scale*.

    A manager that came to own the replicas through the scale has no time, as on a real server.
    """
    in_scale = {m: s for m, s in decode(scale).items() if contains(s.fields, REPLICAS_IN_SCALE)}
    shares = {}
    for manager, share in decode(parent).items():
        if not contains(share.fields, replicas):
            shares[manager] = share
        elif manager in in_scale:
            del in_scale[manager]
            shares[manager] = share
        elif left := difference(share.fields, of_paths(replicas)):
            shares[manager] = Share(left, share.api_version, share.time)
    for manager in in_scale:
        shares[manager] = Share(of_paths(replicas), api_version, None)
    return encode(shares)
