"""Ways to break a cluster, collected by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.insight.doctor.documents import Documents

Expected = Mapping[str, tuple[str, ...]]
"""By rule: what is to be read in the subjects, details and fixes together."""
Break = Callable[[Documents], Expected]

LONG_AGO = "2026-06-01T11:40:00.000000Z"
"""Twenty minutes before the present of these clusters."""

CASES: dict[str, Break] = {}


def case(function: Break) -> Break:
    """Add a way to break the cluster."""
    CASES[function.__name__.removeprefix("_")] = function
    return function


def kubelet_config(world: Documents, node: str, **settings: Any) -> None:
    """Change the configuration that a kubelet tells of itself."""
    world.configz[node]["kubeletconfig"].update(settings)
