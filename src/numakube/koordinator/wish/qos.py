"""Koordinator's quality of service and priority classes, which decide who gets CPUs of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.koordinator import keys

if TYPE_CHECKING:
    from collections.abc import Mapping

LSE: Final = "LSE"
LSR: Final = "LSR"
BE: Final = "BE"
PROD: Final = "koord-prod"
BATCH: Final = "koord-batch"
QOS_CLASSES: Final = (LSE, LSR, "LS", BE, "SYSTEM")
BANDS: Final = {
    PROD: range(9000, 10000),
    "koord-mid": range(7000, 8000),
    BATCH: range(5000, 6000),
    "koord-free": range(3000, 4000),
}
"""Values of ``spec.priority`` that stand for a priority class."""


def qos_of(labels: Mapping[str, str]) -> str:
    """Return the QoS class that the label names; unknown words name none."""
    word = labels.get(keys.QOS_CLASS, "")
    return word if word in QOS_CLASSES else ""


def priority_of(labels: Mapping[str, str], priority: int | None) -> str:
    """Return the priority class: the label's, else that of the priority's band, else the QoS's."""
    word = labels.get(keys.PRIORITY_CLASS, "")
    if word in BANDS:
        return word
    for name, band in BANDS.items():
        if priority is not None and priority in band:
            return name
    qos = qos_of(labels)
    return BATCH if qos == BE else PROD if qos else ""


def may_bind(labels: Mapping[str, str], priority: int | None) -> bool:
    """Tell whether pods of this class get CPUs of their own, whatever the kubelet calls them."""
    return qos_of(labels) in {LSE, LSR} and priority_of(labels, priority) == PROD
