"""What tests of the whole know of the driver; see `tests.annexes.contributions`."""

from __future__ import annotations

MODULE_CEILINGS = {"dra-driver": 146}
