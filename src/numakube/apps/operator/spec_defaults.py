"""What fields of both objects mean when they are not given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.numaresources import NodeGroupConfig, SchedulerSpec, ScoringStrategy

if TYPE_CHECKING:
    from collections.abc import Mapping

ENABLED: Final = "Enabled"
PERIODIC: Final = "Periodic"
EVENTS: Final = "Events"

NODE_GROUP: Final = NodeGroupConfig(
    pods_fingerprinting="EnabledExclusiveResources",
    info_refresh_mode=PERIODIC,
    info_refresh_period="10s",
    info_refresh_pause="Disabled",
)

_LOG_LEVELS: Final[Mapping[str, str]] = {
    "": "info",
    "Normal": "info",
    "Debug": "debug",
    "Trace": "debug",
    "TraceAll": "debug",
}


def normalised(config: NodeGroupConfig | None) -> NodeGroupConfig:
    """Return *config* with every field."""
    if config is None:
        return NODE_GROUP
    given = {
        name: value
        for name in NodeGroupConfig.__struct_fields__
        if (value := getattr(config, name)) is not None
    }
    return msgspec.structs.replace(NODE_GROUP, **given)


def normalised_scheduler(spec: SchedulerSpec) -> SchedulerSpec:
    """Return *spec* with every field but the replicas, which depend on the cluster."""
    scoring = spec.scoring_strategy or ScoringStrategy()
    return msgspec.structs.replace(
        spec,
        cache_resync_period=spec.cache_resync_period or "5s",
        cache_resync_debug=spec.cache_resync_debug or "DumpJSONFile",
        scheduler_informer=spec.scheduler_informer or "Dedicated",
        cache_resync_detection=spec.cache_resync_detection or "Relaxed",
        scoring_strategy=msgspec.structs.replace(scoring, type=scoring.type or "LeastAllocated"),
    )


def log_level(name: str) -> str:
    """Return our name of a log level of theirs."""
    return _LOG_LEVELS.get(name, "info")
