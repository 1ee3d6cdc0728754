"""Taking over from an installation by others, and giving back.

What is replaced is stopped, not deleted: a Deployment gets no replicas, a DaemonSet a node
selector that no node has. An annotation keeps what it takes to wake it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numakube.apps.deployer.detection import REPLACED
from numakube.kube.catalog import DAEMON_SETS, DEPLOYMENTS
from numakube.kube.patches import merge_patch

if TYPE_CHECKING:
    from numakube.apps.deployer.detection import Found
    from numakube.kube.client import Client


async def put_to_rest(client: Client, found: Found, *, dry_run: bool = False) -> None:
    """Stop what *found* runs."""
    if found.kind == "DaemonSet":
        change: dict[str, Any] = {
            "metadata": {"annotations": {REPLACED: "true"}},
            "spec": {"template": {"spec": {"nodeSelector": {REPLACED: "never"}}}},
        }
        resource = DAEMON_SETS
    else:
        resource = DEPLOYMENTS
        live = await client.get(resource, found.name, namespace=found.namespace)
        if REPLACED in live["metadata"].get("annotations", {}):
            return
        change = {
            "metadata": {"annotations": {REPLACED: str(live["spec"].get("replicas", 1))}},
            "spec": {"replicas": 0},
        }
    await client.patch(
        resource, found.name, merge_patch(change), namespace=found.namespace, dry_run=dry_run
    )


async def wake_all(client: Client, *, dry_run: bool = False) -> list[str]:
    """Start again what was stopped; return the names."""
    woken = []
    for resource in (DAEMON_SETS, DEPLOYMENTS):
        for one in (await client.list(resource)).items:
            kept = one["metadata"].get("annotations", {}).get(REPLACED)
            if kept is None:
                continue
            change: dict[str, Any] = {"metadata": {"annotations": {REPLACED: None}}}
            if resource is DAEMON_SETS:
                selector = {REPLACED: None}
                change["spec"] = {"template": {"spec": {"nodeSelector": selector}}}
            else:
                change["spec"] = {"replicas": int(kept) if kept.isdecimal() else 1}
            metadata = one["metadata"]
            await client.patch(
                resource,
                metadata["name"],
                merge_patch(change),
                namespace=metadata["namespace"],
                dry_run=dry_run,
            )
            woken.append(f"{resource.kind.lower()}/{metadata['name']} in {metadata['namespace']}")
    return woken
