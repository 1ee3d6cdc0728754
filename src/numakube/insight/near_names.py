"""Which of the names that there are somebody may have meant, for resources and for schedulers."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from numakube.api.scheduler_config import DEFAULT_SCHEDULER
from numakube.values.resources import is_extended

if TYPE_CHECKING:
    from collections.abc import Iterable

_ALIKE: Final = 0.6
_SIZE: Final = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>[kmgtp])i?b(ytes)?", re.IGNORECASE)
_COUNT: Final = re.compile(
    r"(?P<number>\d+(\.\d+)?)\s*(v?cpu|core|thread|gpu|device)s?", re.IGNORECASE
)


def amount_hint(text: str) -> str:
    """Return what may have been meant by *text*, which is no Kubernetes quantity; or nothing."""
    if size := _SIZE.fullmatch(text):
        number, unit = size["number"], size["unit"].upper()
        return f"; write {number}{unit}i, or {number}{unit if unit != 'K' else 'k'}"
    if count := _COUNT.fullmatch(text):
        return f"; write {count['number']}"
    return ""


def nearest(name: str, there: Iterable[str]) -> str:
    """Return the name among those *there* are that is most like *name*; empty if none is."""
    return next(iter(get_close_matches(name, sorted(there), n=1, cutoff=_ALIKE)), "")


def nearest_device(resource: str, offered: Iterable[str]) -> str:
    """Return the device among those *offered* that may be meant by *resource*.

    What stands after the last slash has to be alike, since devices of one vendor share the rest.
    """
    own = resource.rpartition("/")[2]
    alike = [
        name for name in offered if is_extended(name) and nearest(own, [name.rpartition("/")[2]])
    ]
    return nearest(resource, alike) or next(iter(sorted(alike)), "")


def device_hint(resource: str, offered: Iterable[str]) -> str:
    """Return what may have been meant by a device that is not among those *offered* by nodes."""
    devices = sorted(filter(is_extended, offered))
    near = nearest_device(resource, devices)
    if near:
        return f"did you mean {near}?"
    return f"nodes have {', '.join(devices)}" if devices else "nodes have no devices"


def scheduler_hint(name: str, known: Iterable[str]) -> str:
    """Return what may have been meant by the *name* of a scheduler that there is no sign of."""
    near = nearest_scheduler(name, known)
    return f"did you mean {near}?" if near else f"there are {', '.join(sorted(known))}"


def nearest_scheduler(name: str, known: Iterable[str]) -> str:
    """Return the scheduler that may be meant; never the default one, which nobody has to name."""
    return nearest(name, (one for one in known if one != DEFAULT_SCHEDULER))
