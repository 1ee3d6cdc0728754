"""``--adopt``: taking over from another installation, and giving back.

What taking over means is decided before anything is done. A scheduler is taken over completely:
every profile under its name, with its plugins and their arguments, in a configuration that ours has
been tried with. If ours cannot do something that it does, it is not taken over at all.

What is replaced is stopped, not deleted: a Deployment gets no replicas, a DaemonSet a node
selector that no node has. An annotation keeps what is needed to start it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from numakube.api.scheduler_config import API_VERSION, KIND
from numakube.apps.deployer.cluster_detection import EXPORTER, REPLACED, SCHEDULER, Found
from numakube.errors import ConfigError, MalformedObject
from numakube.insight.scheduler_engine import tried
from numakube.kube.catalog import DAEMON_SETS, DEPLOYMENTS
from numakube.kube.client import merge_patch
from numakube.scheduling.config.older_versions import OLDER, upgraded

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from numakube.kube.client import Client
    from numakube.manifests.components import Choices


_OWN: Final = ("apiVersion", "kind", "profiles", "leaderElection", "clientConnection")
"""Fields of a configuration that are not taken over as they are."""
_TIMES: Final = ("leaseDuration", "renewDeadline", "retryPeriod")


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """What is done about an installation.

    Attributes:
        found: what is stopped, or to be stopped.
        configuration: that of our scheduler, as chosen or as taken over; ``None`` for its default.
        report: what changes, in lines for people.
    """

    found: tuple[Found, ...] = ()
    configuration: dict[str, Any] | None = None
    report: tuple[str, ...] = ()


def plan_takeover(found: Sequence[Found], choices: Choices) -> Takeover:
    """Return how to take over from all of *found*.

    Raises:
        ConfigError: something of it cannot be; it says what, and nothing should be done.
    """
    _check_owners(found)
    schedulers = [one for one in found if one.role == SCHEDULER]
    configuration = _configuration(schedulers, choices) if schedulers else choices.configuration
    report = tuple(line for one in found for line in _report(one))
    return Takeover(found=tuple(found), configuration=configuration, report=report)


def rivals(found: Iterable[Found], names: Collection[str]) -> list[Found]:
    """Return those that are at work and do what ours would: any exporter, schedulers of *names*."""
    return [
        one
        for one in found
        if not one.resting
        and (one.role == EXPORTER or not set(names).isdisjoint(one.scheduler_names))
    ]


def rival_text(one: Found) -> str:
    """Return what the trouble with a rival is."""
    if one.role == EXPORTER:
        return f"{one} writes the same NodeResourceTopology objects"
    return f"{one} schedules the pods that name {', '.join(one.scheduler_names)}"


def _check_owners(found: Sequence[Found]) -> None:
    """Refuse what another program manages: it would be started again at once."""
    mended = [one for one in found if one.owner and not one.resting]
    if mended and not any(one.role == "operator" for one in found):
        names = "; ".join(f"{one} is kept by {one.owner}" for one in mended)
        raise ConfigError(
            f"nothing is taken over: {names}, whose operator would wake it again; delete or change"
            " that object, or take over from the operator"
        )


def _configuration(schedulers: Sequence[Found], choices: Choices) -> dict[str, Any]:
    """Return one configuration with all profiles; ours has been made from it once."""
    if choices.configuration is not None:
        return _complete(choices.configuration, schedulers)
    for one in schedulers:
        if one.configuration is None:
            why = one.unread or "it has no configuration"
            raise ConfigError(f"nothing is taken over: {one}: {why}")
    trees = [_as_v1(one) for one in schedulers]
    settings = [{name: text for name, text in tree.items() if name not in _OWN} for tree in trees]
    if any(each != settings[0] for each in settings):
        raise ConfigError("nothing is taken over: the schedulers have different settings")
    profiles = [profile for tree in trees for profile in tree.get("profiles") or [{}]]
    merged = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        **settings[0],
        "leaderElection": _election(trees[0], choices),
        "profiles": _with_ours(profiles, choices.scheduler_name),
    }
    try:
        tried(merged, str(schedulers[0]))
    except ConfigError as error:
        raise ConfigError(
            f"nothing is taken over: {error}. --scheduler-config FILE gives ours a configuration of"
            " your own, with the same schedulerNames"
        ) from None
    return merged


def _as_v1(one: Found) -> dict[str, Any]:
    tree = one.configuration or {}
    if tree.get("apiVersion") not in OLDER:
        return tree
    try:
        return upgraded(tree, lambda _: None, str(one))
    except (ConfigError, MalformedObject) as error:
        raise ConfigError(f"nothing is taken over: {error}") from None


def _complete(chosen: dict[str, Any], schedulers: Sequence[Found]) -> dict[str, Any]:
    """Return the configuration that the user chose, if it has all profiles of *schedulers*."""
    names = {one.get("schedulerName") for one in chosen["profiles"]}
    for one in schedulers:
        missing = sorted(set(one.scheduler_names) - names)
        if missing:
            raise ConfigError(
                f"nothing is taken over: the configuration given has no profile {missing[0]},"
                f" which {one} serves"
            )
    return chosen


def _election(tree: dict[str, Any], choices: Choices) -> dict[str, Any]:
    times = tree.get("leaderElection") or {}
    kept = {name: times[name] for name in times if name in _TIMES}
    lease = {"resourceName": choices.scheduler_name, "resourceNamespace": choices.namespace}
    return {**kept, "leaderElect": True, **lease}


def _with_ours(profiles: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return *profiles* with one for our own name, alike the first: they share a cache."""
    if any(one.get("schedulerName") == name for one in profiles):
        return profiles
    return [*profiles, {**profiles[0], "schedulerName": name}]


def _report(one: Found) -> Iterator[str]:
    rest = "is stopped already" if one.resting else "is stopped; `numakube remove` starts it again"
    yield f"{one} {rest}"
    if one.role == EXPORTER:
        given = [word for word in one.arguments if word.startswith("-")]
        if given:
            yield f"  ours has defaults of its own in place of {' '.join(given)}"
    tree = one.configuration or {}
    for profile in tree.get("profiles") or ():
        yield f"  schedulerName {profile.get('schedulerName')} is served by numakube"
        for plugin in profile.get("pluginConfig") or ():
            names = (plugin.get("args") or {}).keys() - {"apiVersion", "kind"}
            if names:
                yield f"    with {', '.join(sorted(names))} of {plugin.get('name')} as they are"
    if "clientConnection" in tree:
        yield "  without its clientConnection: ours uses the account of its pods"


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
