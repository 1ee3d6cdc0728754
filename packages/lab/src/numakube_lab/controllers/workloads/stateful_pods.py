"""The pods and claims of a stateful set: their names, numbers and contents."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from numakube_lab.controllers.common.owner_references import owner_document
from numakube_lab.controllers.types.workload_types import STATEFUL_SETS
from numakube_lab.controllers.workloads.pod_from_template import pod_from_template
from numakube_lab.controllers.workloads.template_revisions import HASH_LABEL

if TYPE_CHECKING:
    from numakube.api.pod import Pod
    from numakube.kube.resource_types import Document
    from numakube_lab.controllers.types.workload_types import StatefulSet

POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"

_NAME: Final = re.compile(r"(.*)-(0|[1-9][0-9]*)")


def ordinal_of(stateful_set: StatefulSet, pod: Pod) -> int | None:
    """Return the number of *pod*; None if its name is not one of *stateful_set*."""
    matched = _NAME.fullmatch(pod.metadata.name)
    if matched is None or matched[1] != stateful_set.metadata.name:
        return None
    return int(matched[2])


def pod_name(stateful_set: StatefulSet, ordinal: int) -> str:
    """Return the name of a pod."""
    return f"{stateful_set.metadata.name}-{ordinal}"


def pod_of(stateful_set: StatefulSet, template: Document, ordinal: int, revision: str) -> Document:
    """Return the pod with number *ordinal*, made from the template of *revision*."""
    name = pod_name(stateful_set, ordinal)
    pod = pod_from_template(
        template,
        namespace=stateful_set.metadata.namespace,
        owner=owner_document(STATEFUL_SETS, stateful_set),
        name=name,
        labels={POD_NAME_LABEL: name, POD_INDEX_LABEL: str(ordinal), HASH_LABEL: revision},
    )
    spec = pod["spec"]
    named = {"hostname": name, "volumes": _volumes(stateful_set, spec, ordinal)}
    if stateful_set.spec.service_name:
        named["subdomain"] = stateful_set.spec.service_name
    return {**pod, "spec": {**spec, **{key: value for key, value in named.items() if value}}}


def claims_of(stateful_set: StatefulSet, ordinal: int) -> list[Document]:
    """Return the claims that the pod with number *ordinal* needs."""
    found: list[Document] = []
    for template in stateful_set.spec.volume_claim_templates:
        metadata = template.get("metadata") or {}
        labels = {**(metadata.get("labels") or {}), **stateful_set.spec.selector.match_labels}
        found.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": claim_name(stateful_set, template, ordinal),
                    "namespace": stateful_set.metadata.namespace,
                    "labels": labels,
                    "annotations": metadata.get("annotations") or {},
                },
                "spec": template.get("spec") or {},
            }
        )
    return found


def claim_name(stateful_set: StatefulSet, template: Document, ordinal: int) -> str:
    """Return the name of a claim."""
    prefix = (template.get("metadata") or {}).get("name", "")
    return f"{prefix}-{pod_name(stateful_set, ordinal)}"


def _volumes(stateful_set: StatefulSet, spec: Document, ordinal: int) -> list[Document]:
    """Return the volumes of a pod: those of claims take the place of others of the same name."""
    claimed: dict[str, Document] = {}
    for template in stateful_set.spec.volume_claim_templates:
        name = (template.get("metadata") or {}).get("name", "")
        source = {"claimName": claim_name(stateful_set, template, ordinal)}
        claimed[name] = {"name": name, "persistentVolumeClaim": source}
    others = [each for each in spec.get("volumes") or () if each.get("name") not in claimed]
    return [*claimed.values(), *others]
