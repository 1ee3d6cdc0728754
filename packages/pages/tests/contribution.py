"""What tests of the whole know of the pages; see `tests.annexes.contributions`."""

from __future__ import annotations

MODULE_CEILINGS = {"dashboard": 204}
