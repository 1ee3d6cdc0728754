"""What the operator can be told, as the NUMA Resources Operator calls it where it has the same."""

from __future__ import annotations

from typing import Final

import click

from numakube.apps.host.common_settings import CONNECTION, LOGS, serving_settings
from numakube.apps.host.settings import Setting, Settings

PLATFORMS: Final = ("kubernetes", "openshift")

SETTINGS: Final = Settings(
    (
        Setting(
            name="namespace",
            flag="--namespace",
            env="NAMESPACE",
            metavar="NAME",
            default="numaresources-operator",
            help="Where exporters and scheduler live.",
        ),
        Setting(
            name="pod_name",
            flag="--pod-name",
            env="PODNAME",
            metavar="POD",
            help="The operator's own pod, whose image the exporters get.",
        ),
        Setting(
            name="image_exporter",
            flag="--image-exporter",
            metavar="IMAGE",
            help="Image of the exporters; by default the operator's own.",
        ),
        Setting(
            name="platform",
            flag="--platform",
            type=click.Choice(PLATFORMS),
            help="What kind of cluster this is, instead of finding out.",
        ),
        Setting(
            name="exporter_image_restriction",
            flag="--exporter-image-restriction/--no-exporter-image-restriction",
            env="EXPORTER_IMAGE_RESTRICTION",
            default=False,
            help="Refuse exporter images that the user's object names.",
        ),
        Setting(
            name="scheduler_image_validation",
            flag="--scheduler-image-validation/--no-scheduler-image-validation",
            env="SCHEDULER_IMAGE_VALIDATION",
            default=False,
            help="Run only scheduler images with a trusted digest.",
        ),
        Setting(
            name="scheduler_image_digests",
            flag="--scheduler-image-digests",
            env="SCHEDULER_IMAGE_DIGESTS",
            metavar="DIGESTS",
            default="",
            help="Digests to trust, separated by commas.",
        ),
        Setting(
            name="api_ports",
            flag="--api-server-ports",
            metavar="PORTS",
            default="443,6443",
            help="Where network policies let exporters and scheduler reach the API server.",
        ),
        Setting(
            name="leader_elect",
            flag="--leader-elect/--no-leader-elect",
            default=True,
            help="Let several operators agree on one that works.",
        ),
        *serving_settings(8081),
        *CONNECTION,
        *LOGS,
    )
)
