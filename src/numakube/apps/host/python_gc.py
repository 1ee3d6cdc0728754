"""Keep Python's cyclic garbage collector from slowing down a process that holds a whole cluster.

API objects are trees: they are freed by reference counting, and the collector finds nothing in
them. But it looks at all of them again and again while they grow in number, which takes a third of
the time in which a lab starts ten thousand pods, and a twentieth of a scheduler's at full speed.
"""

from __future__ import annotations

import contextlib
import gc
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# New objects until the young are looked at, and how many such looks until older ones are.
_RARELY: Final = (100_000, 20, 100)


@contextlib.contextmanager
def quiet_collector() -> Iterator[None]:
    """Let the collector work rarely, and not on what exists already, while the body runs."""
    before = gc.get_threshold()
    quieten_collector()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def quieten_collector() -> None:
    """Let the collector work rarely from now on, and not on what exists already."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_RARELY)
