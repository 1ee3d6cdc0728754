"""The exporter on every node, without an operator."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from numakube.manifests.pool_exporters import Names, PoolExporter, PoolExporters
from numakube.manifests.release_image import IMAGE

NAME: Final = "numakube-exporter"
_NAMES: Final = Names(
    account=NAME,
    service=f"{NAME}-metrics",
    container="exporter",
    labels=MappingProxyType(
        {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "numakube"}
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterManifest:
    """What is deployed.

    Attributes:
        period: how often an exporter looks even if nothing seems to have changed.
        fingerprint: the method of the pods' fingerprint; ``None`` for none.
        koordinator: whether they also write what koordlet does.
    """

    namespace: str = "numakube"
    image: str = IMAGE
    pull_policy: str = "IfNotPresent"
    period: str = "1m"
    fingerprint: str | None = "with-exclusive-resources"
    koordinator: bool = False

    def objects(self) -> list[dict[str, Any]]:
        """Return everything, in the order of creation."""
        everywhere = PoolExporter(
            name=NAME,
            period=self.period,
            fingerprint=self.fingerprint,
            koordinator=self.koordinator,
            tolerations=({"operator": "Exists"},),
        )
        return PoolExporters(
            namespace=self.namespace,
            image=self.image,
            pull_policy=self.pull_policy,
            names=_NAMES,
            pools=(everywhere,),
        ).objects()
