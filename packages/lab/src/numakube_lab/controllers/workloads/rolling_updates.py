"""The arithmetic of rolling updates: how many pods each replica set of a deployment should have.

Pure numbers, after kube-controller-manager 1.35. Old replica sets are always taken oldest first.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube_lab.controllers.types.workload_types import IntOrPercent


@dataclass(frozen=True, slots=True)
class Size:
    """A replica set in numbers.

    Attributes:
        replicas: how many pods it should have.
        available: how many of its pods are available.
        basis: how large its deployment could be when it was last scaled; None if unknown.
    """

    name: str
    replicas: int
    available: int
    basis: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What a rolling update has to keep to.

    Attributes:
        replicas: how many pods are wanted.
        surge: how many more there may be.
        unavailable: how many of the wanted may be unavailable.
    """

    replicas: int
    surge: int
    unavailable: int

    @property
    def most(self) -> int:
        """The largest number of pods."""
        return self.replicas + self.surge

    @property
    def least_available(self) -> int:
        """The smallest number of available pods."""
        return self.replicas - self.unavailable


def share_of(part: IntOrPercent, whole: int, *, round_up: bool) -> int:
    """Return a number of pods that is given as such, or as a percentage of *whole*."""
    if isinstance(part, int):
        return part
    digits = part.removesuffix("%")
    if not part.endswith("%") or not digits.isdecimal():
        return 0
    scaled = int(digits) * whole
    return -(-scaled // 100) if round_up else scaled // 100


def rolling_limits(replicas: int, max_surge: IntOrPercent, max_unavailable: IntOrPercent) -> Limits:
    """Return the limits of a rolling update; without any margin, one pod may be unavailable."""
    surge = share_of(max_surge, replicas, round_up=True)
    unavailable = share_of(max_unavailable, replicas, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Limits(replicas, surge, min(unavailable, replicas))


def new_size(new: int, total: int, limits: Limits) -> int:
    """Return how many pods the new replica set should have, of *new* that it has.

    Args:
        new: how many it should have at present; 0 if it does not exist yet.
        total: how many all replica sets should have.
        limits: what to keep to.
    """
    if new >= limits.replicas:
        return limits.replicas
    room = limits.most - total
    return new if room <= 0 else new + min(room, limits.replicas - new)


def shrink_old(old: Sequence[Size], new: Size, limits: Limits) -> dict[str, int]:
    """Return the new sizes of old replica sets: pods that are not available go first."""
    total = sum(one.replicas for one in old) + new.replicas
    margin = total - limits.least_available - (new.replicas - new.available)
    if margin <= 0:
        return {}
    sizes = _drop_unavailable(old, margin)
    available = sum(one.available for one in old) + new.available
    spare = available - limits.least_available
    for one in old:
        if spare <= 0:
            break
        current = sizes.get(one.name, one.replicas)
        taken = min(current, spare)
        if taken > 0:
            sizes[one.name] = current - taken
            spare -= taken
    return sizes


def _drop_unavailable(old: Sequence[Size], most: int) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for one in old:
        dropped = min(most, one.replicas - one.available)
        if dropped > 0:
            sizes[one.name] = one.replicas - dropped
            most -= dropped
    return sizes


def scale_in_proportion(sets: Sequence[Size], limits: Limits, present: int) -> dict[str, int]:
    """Spread a change of a deployment's size over its active replica sets, in mid-rollout.

    Args:
        sets: the active replica sets, the largest first; of equals, the newest first when growing
            and the oldest first when shrinking.
        limits: the wanted size.
        present: the size that the deployment last reported.
    """
    allowed = limits.most if limits.replicas > 0 else 0
    to_add = allowed - sum(one.replicas for one in sets)
    added = 0
    sizes: dict[str, int] = {}
    for one in sets:
        share = _proportion(one, limits, present, to_add - added) if to_add else 0
        sizes[one.name] = one.replicas + share
        added += share
    if sets and to_add != added:
        first = sets[0].name
        sizes[first] = max(0, sizes[first] + to_add - added)
    return sizes


def _proportion(one: Size, limits: Limits, present: int, rest: int) -> int:
    if one.replicas == 0 or rest == 0:
        return 0
    if limits.replicas == 0:
        wanted = -one.replicas
    else:
        basis = one.basis or present
        share = Fraction(one.replicas * limits.most, basis) if basis else Fraction(0)
        # Go rounds halves away from zero; shares are never negative.
        wanted = int(share + Fraction(1, 2)) - one.replicas
    return min(wanted, rest) if rest > 0 else max(wanted, rest)
