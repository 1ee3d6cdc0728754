"""The garbage collector of a process that holds a cluster."""

from __future__ import annotations

import gc

from numakube.apps.host.process_memory import quiet_collector


def test_the_collector_is_as_before_afterwards() -> None:
    """Rare inside, and nothing stays changed outside."""
    before = gc.get_threshold()
    with quiet_collector():
        assert gc.get_threshold() > before
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
