"""Placement by annotation: the scheduler chooses CPUs and devices where no kubelet aligns."""

from typing import Final

ENFORCER_PORT: Final = 2114
WEBHOOK_PORT: Final = 8443
"""Where the programs serve unless told otherwise."""
