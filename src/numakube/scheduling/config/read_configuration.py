"""Reading and checking a KubeSchedulerConfiguration.

A file for kube-scheduler with upstream's plugin works unchanged, an older version of it with notes
on what to write today. What we do not do is said at once and by name, rather than ignored:
extenders, and plugins that do not exist here. What makes no difference here is a warning: see
`unused_settings`. All other fields are honoured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.codec import convert
from numakube.api.scheduler_config import (
    API_VERSION,
    DEFAULT_SCHEDULER,
    KIND,
    MAIN_LEASE,
    KubeSchedulerConfiguration,
)
from numakube.errors import ConfigError, InvalidValue, MalformedObject
from numakube.scheduling.config.older_versions import OLDER, upgraded
from numakube.scheduling.framework.unknown_fields import unknown_fields
from numakube.values.times import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_ALL_NODES: Final = 100
"""Percent."""
_LOCK: Final = "leases"
_JSON: Final = "application/json"
_NO_PROFILES: Final = "there is no /debug/pprof here"


def _ignored(note: str) -> None:
    del note


def read_configuration(
    tree: Mapping[str, object], *, source: str = KIND, note: Callable[[str], None] = _ignored
) -> KubeSchedulerConfiguration:
    """Return the configuration in *tree*, a parsed file.

    Args:
        tree: what the file has.
        source: where it is from.
        note: gets a sentence for everything that is to be written otherwise today.

    Raises:
        ConfigError: it is wrong; the message names the field.
    """
    if tree.get("kind") != KIND or tree.get("apiVersion") not in (API_VERSION, *OLDER):
        raise ConfigError(
            f"{source}: this is {tree.get('apiVersion')} {tree.get('kind')}, "
            f"not a {KIND} of {API_VERSION}"
        )
    try:
        tree = tree if tree["apiVersion"] == API_VERSION else upgraded(tree, note, source)
        config = convert(KubeSchedulerConfiguration, tree, source)
    except MalformedObject as error:
        raise ConfigError(str(error)) from None
    config = _with_lease(config, tree.get("leaderElection"))
    problems = [*unknown_fields(tree), *_problems(config)]
    if problems:
        raise ConfigError(f"{source}: " + "; ".join(problems))
    return config


def _with_lease(config: KubeSchedulerConfiguration, told: object) -> KubeSchedulerConfiguration:
    """Return *config* with a lease where *told*, the election of the file, leaves it open."""
    election = config.leader_election
    named = isinstance(told, dict) and told.get("resourceName")
    settled = msgspec.structs.replace(
        election,
        resource_name=election.resource_name if named else config.own_lease,
        resource_namespace=election.resource_namespace or MAIN_LEASE[0],
        resource_lock=election.resource_lock or _LOCK,
    )
    return msgspec.structs.replace(config, leader_election=settled)


def unused_settings(config: KubeSchedulerConfiguration) -> Iterator[str]:
    """Yield what the configuration asks for that has no effect here, or not the expected one."""
    for path, percentage in _percentages(config):
        if percentage not in (None, _ALL_NODES):
            yield f"{path} has no effect: every node is filtered and scored for every pod"
    connection = config.client_connection
    unused = {
        "parallelism": (config.parallelism, "all nodes are looked at together"),
        "enableProfiling": (config.enable_profiling, _NO_PROFILES),
        "enableContentionProfiling": (config.enable_contention_profiling, _NO_PROFILES),
        "delayCacheUntilActive": (
            config.delay_cache_until_active,
            "caches are filled before the lease is taken, so that another takes over at once",
        ),
    }
    for path, (value, why) in unused.items():
        if value:
            yield f"{path} has no effect: {why}"
    for path, types in (
        ("clientConnection.acceptContentTypes", connection.accept_content_types),
        ("clientConnection.contentType", connection.content_type),
    ):
        if types not in ("", _JSON):
            yield f"{path} has no effect: requests and answers are {_JSON}"
    yield from _foreign_lease(config)


def _foreign_lease(config: KubeSchedulerConfiguration) -> Iterator[str]:
    election = config.leader_election
    lease = (election.resource_namespace, election.resource_name)
    if election.leader_elect and lease == MAIN_LEASE and not config.serves_default:
        yield (
            f"leaderElection: {'/'.join(lease)} is kube-scheduler's lease, and no profile serves"
            f" {DEFAULT_SCHEDULER}: only one of the two works at a time. Give another resourceName"
        )


def _percentages(config: KubeSchedulerConfiguration) -> Iterator[tuple[str, int | None]]:
    name = "percentageOfNodesToScore"
    yield name, config.percentage_of_nodes_to_score
    for position, profile in enumerate(config.profiles):
        yield f"profiles[{position}].{name}", profile.percentage_of_nodes_to_score


def _problems(config: KubeSchedulerConfiguration) -> Iterator[str]:
    for path, percentage in _percentages(config):
        if percentage is not None and not 0 <= percentage <= _ALL_NODES:
            yield f"{path}: {percentage} is not between 0 and {_ALL_NODES}"
    yield from _client_problems(config)
    if config.extenders:
        yield "extenders: this scheduler calls none; use kube-scheduler with `numakube extender`"
    if config.pod_initial_backoff_seconds <= 0:
        yield "podInitialBackoffSeconds: must be greater than 0"
    if config.pod_max_backoff_seconds < config.pod_initial_backoff_seconds:
        yield "podMaxBackoffSeconds: must be greater than or equal to podInitialBackoffSeconds"
    yield from _profile_problems(config)
    yield from _lease_problems(config)


def _client_problems(config: KubeSchedulerConfiguration) -> Iterator[str]:
    if config.parallelism is not None and config.parallelism <= 0:
        yield "parallelism: must be greater than 0"
    if config.client_connection.burst < 0:
        yield "clientConnection.burst: must not be negative"


def _profile_problems(config: KubeSchedulerConfiguration) -> Iterator[str]:
    seen: set[str] = set()
    for position, profile in enumerate(config.profiles):
        path = f"profiles[{position}]"
        if not profile.scheduler_name:
            yield f"{path}.schedulerName: required"
        if profile.scheduler_name in seen:
            yield f"{path}.schedulerName: {profile.scheduler_name} is in another profile already"
        seen.add(profile.scheduler_name)
        named = [one.name for one in profile.plugin_config]
        for name in sorted({one for one in named if named.count(one) > 1}):
            yield f"{path}.pluginConfig: {name} appears more than once"


def _lease_problems(config: KubeSchedulerConfiguration) -> Iterator[str]:
    election = config.leader_election
    if not election.leader_elect:
        return
    try:
        times = [
            parse_duration(text)
            for text in (election.lease_duration, election.renew_deadline, election.retry_period)
        ]
    except InvalidValue as error:
        yield f"leaderElection: {error}"
        return
    if not times[0] > times[1] > times[2]:
        yield "leaderElection: leaseDuration must exceed renewDeadline, and that retryPeriod"
    if election.resource_lock != _LOCK:
        yield f"leaderElection.resourceLock: {election.resource_lock} is not supported: use {_LOCK}"
