"""Objects other than nodes and pods that decisions depend on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True)
class ClusterObjects:
    """The latest known objects by key (``namespace/name``, or the name alone).

    Attributes:
        namespace_labels: labels of each namespace, for namespace selectors.
    """

    namespace_labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
