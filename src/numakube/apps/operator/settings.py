"""The settings of the operator, named as in the NUMA Resources Operator where it has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import click

from numakube.apps.host.common_settings import (
    ConnectionSettings,
    LogSettings,
    ServingSettings,
    serving_on,
)
from numakube.apps.host.settings_sources import SettingsTable, group, setting
from numakube.manifests.cluster_policies import API_PORTS
from numakube.programs import PROGRAMS

PLATFORMS: Final = ("kubernetes", "openshift")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """The settings of an operator."""

    namespace: str = setting(
        "--namespace",
        default="numaresources-operator",
        env="NAMESPACE",
        metavar="NAME",
        help="Namespace of exporters and scheduler.",
    )
    pod_name: str = setting(
        "--pod-name",
        env="PODNAME",
        metavar="POD",
        help="The operator's own pod, whose image the exporters get.",
    )
    image_exporter: str = setting(
        "--image-exporter",
        metavar="IMAGE",
        help="Image of the exporters; by default the operator's own.",
    )
    platform: str = setting(
        "--platform",
        type=click.Choice(PLATFORMS),
        help="The kind of cluster; by default it is detected.",
    )
    exporter_image_restriction: bool = setting(
        "--exporter-image-restriction/--no-exporter-image-restriction",
        default=False,
        env="EXPORTER_IMAGE_RESTRICTION",
        help="Refuse exporter images that the user's object names.",
    )
    scheduler_image_validation: bool = setting(
        "--scheduler-image-validation/--no-scheduler-image-validation",
        default=False,
        env="SCHEDULER_IMAGE_VALIDATION",
        help="Run only scheduler images with a trusted digest.",
    )
    scheduler_image_digests: str = setting(
        "--scheduler-image-digests",
        default="",
        env="SCHEDULER_IMAGE_DIGESTS",
        metavar="DIGESTS",
        help="Digests to trust, separated by commas.",
    )
    api_ports: str = setting(
        "--api-server-ports",
        default=",".join(map(str, API_PORTS)),
        metavar="PORTS",
        help="Ports of the API server that network policies open for exporters and scheduler.",
    )
    leader_elect: bool = setting(
        "--leader-elect/--no-leader-elect",
        default=True,
        help="Whether several operators elect a leader.",
    )
    serving: ServingSettings = serving_on(PROGRAMS["operator"].port)
    connection: ConnectionSettings = group(ConnectionSettings)
    logs: LogSettings = group(LogSettings)


SETTINGS: Final = SettingsTable(OperatorSettings)
