"""Which rules hold for which kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.lab.objects.daemon_sets import DAEMON_SET
from numakube.lab.objects.deployments import DEPLOYMENT
from numakube.lab.objects.kind_rules import KindRules
from numakube.lab.objects.pods import POD
from numakube.lab.objects.replica_sets import POD_TEMPLATE, REPLICA_SET, REPLICATION_CONTROLLER
from numakube.lab.objects.stateful_sets import CONTROLLER_REVISION, STATEFUL_SET

if TYPE_CHECKING:
    from numakube.lab.kinds import GVK

_PLAIN: Final = KindRules()

_RULES: Final[dict[tuple[str, str], KindRules]] = {
    ("", "Pod"): POD,
    ("", "PodTemplate"): POD_TEMPLATE,
    ("", "ReplicationController"): REPLICATION_CONTROLLER,
    ("apps", "ControllerRevision"): CONTROLLER_REVISION,
    ("apps", "DaemonSet"): DAEMON_SET,
    ("apps", "Deployment"): DEPLOYMENT,
    ("apps", "ReplicaSet"): REPLICA_SET,
    ("apps", "StatefulSet"): STATEFUL_SET,
}


def rules_of(gvk: GVK) -> KindRules:
    """Return the rules of a kind; of one that is not known only the metadata is checked."""
    return _RULES.get((gvk.group, gvk.kind), _PLAIN)
