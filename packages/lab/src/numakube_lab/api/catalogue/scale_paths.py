"""Where objects that can be scaled have their numbers of replicas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from numakube_lab.kinds import GVK

SCALE: Final = GVK("autoscaling", "v1", "Scale")


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where an object has its numbers of replicas and its selector."""

    wanted: str = ".spec.replicas"
    actual: str = ".status.replicas"
    selector: str = ""
