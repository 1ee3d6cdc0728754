"""What would be offered, for people (a table) and for programs (a tree)."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from numakube.api.yaml_text import dump_yaml
from numakube.node.pci.device_files import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.node.pci.device_pools import PoolSpec
    from numakube.node.pci.host_scan import PoolMember, Standing, Survey

TABLE, JSON, YAML = "table", "json", "yaml"
_HEADER: Final = ("RESOURCE", "DEVICE", "NUMA", "DRIVER", "PF", "VF", "LINK", "HEALTH")
_WHY_HEADER: Final = ("DEVICE", "POOL", "NOT OFFERED BECAUSE")
_NONE: Final = "-"


def printed(survey: Survey, form: str, *, explain: bool) -> str:
    """Return what a dry run prints in the given *form*."""
    if form == TABLE:
        return table(survey, explain=explain)
    document = tree(survey, explain=explain)
    return json.dumps(document, indent=2) if form == JSON else dump_yaml(document)


def table(survey: Survey, *, explain: bool) -> str:
    """Return what is offered, a device a line, and a summary of every pool.

    Args:
        survey: what was found.
        explain: also tell why devices are not offered.
    """
    rows = [
        _row(pool, standing)
        for pool in survey.config.pools
        for standing in survey.standings[pool.resource].values()
    ]
    parts = [_columns([_HEADER, *rows])] if rows else []
    summaries = [
        f"{pool.resource}: {_summary(survey.standings[pool.resource])}"
        for pool in survey.config.pools
    ]
    parts.append("\n".join(summaries) or "no pools are configured")
    remarks = [f"warning: {remark}" for remark in (*survey.config.remarks, *_warnings(survey))]
    if survey.inventory.trouble:
        remarks.append(f"warning: {survey.inventory.trouble}")
    if remarks:
        parts.append("\n".join(remarks))
    if explain:
        parts.append(_explanation(survey))
    return "\n\n".join(parts)


def tree(survey: Survey, *, explain: bool) -> dict[str, Any]:
    """Return the same as plain data."""
    document: dict[str, Any] = {
        "pools": [
            {
                "resource": pool.resource,
                "deviceType": str(pool.type),
                "devices": [
                    _entry(pool, standing, survey)
                    for standing in survey.standings[pool.resource].values()
                ],
            }
            for pool in survey.config.pools
        ],
        "warnings": [str(remark) for remark in (*survey.config.remarks, *_warnings(survey))],
    }
    if explain:
        document["notOffered"] = [
            {"device": device, "resource": resource, "why": why}
            for device, resource, why in _refusals(survey)
        ]
    return document


def _row(pool: PoolSpec, standing: Standing) -> tuple[str, ...]:
    member = standing.member
    facts = _facts(member)
    return (
        pool.resource,
        member.id,
        ",".join(map(str, member.numa_nodes)) or _NONE,
        facts.get("driver") or _NONE,
        facts.get("pfName") or facts.get("pfAddress") or _NONE,
        str(facts.get("index", _NONE)),
        facts.get("linkType") or _NONE,
        f"Unhealthy: {standing.trouble}" if standing.trouble else "Healthy",
    )


def _facts(member: PoolMember) -> dict[str, Any]:
    """Return what is known of a device; what is not is left out."""
    candidate = member.candidate
    if candidate is None:
        return {}
    function = candidate.function
    facts = {
        "vendor": function.vendor,
        "device": function.device,
        "class": function.class_code,
        "driver": function.driver,
        "pfAddress": candidate.pf_address,
        "pfName": candidate.pf_name,
        "index": candidate.index,
        "linkType": candidate.link_type,
        "interfaces": list(candidate.interfaces),
    }
    return {name: value for name, value in facts.items() if value not in ("", None, [])}


def _entry(pool: PoolSpec, standing: Standing, survey: Survey) -> dict[str, Any]:
    member = standing.member
    description = describe(pool, member, survey.inventory.facts)
    entry: dict[str, Any] = {
        "id": member.id,
        "numaNodes": list(member.numa_nodes),
        "healthy": not standing.trouble,
    }
    if standing.trouble:
        entry["trouble"] = standing.trouble
    return {
        **entry,
        **_facts(member),
        "deviceNodes": [node.host_path for node in description.nodes],
        "info": {name: dict(info) for name, info in description.info.items()},
    }


def _summary(standings: Mapping[str, Standing]) -> str:
    if not standings:
        return "no devices; --explain tells why"
    counts: Counter[str] = Counter()
    for standing in standings.values():
        nodes = standing.member.numa_nodes
        counts.update([f"NUMA {node}" for node in nodes] or ["no NUMA node"])
    where = ", ".join(f"{name}: {counts[name]}" for name in sorted(counts))
    total = f"{len(standings)} device{'s' if len(standings) > 1 else ''} ({where})"
    unhealthy = sum(bool(standing.trouble) for standing in standings.values())
    return f"{total}, {unhealthy} unhealthy" if unhealthy else total


def _warnings(survey: Survey) -> list[str]:
    """Return what is missing for devices, each kind of complaint once a pool."""
    found = []
    for pool in survey.config.pools:
        for standing in survey.standings[pool.resource].values():
            description = describe(pool, standing.member, survey.inventory.facts)
            found += [f"pool {pool.resource}: {text}" for text in description.warnings]
    return found


def _explanation(survey: Survey) -> str:
    rows = _refusals(survey)
    return _columns([_WHY_HEADER, *rows]) if rows else "every device is offered"


def _refusals(survey: Survey) -> list[tuple[str, str, str]]:
    unreadable = [
        (unreadable.address, _NONE, unreadable.why) for unreadable in survey.inventory.unreadable
    ]
    offered = {id_ for standings in survey.standings.values() for id_ in standings}
    refused = [
        (share.id, share.resource, share.why)
        for share in survey.shares.refused
        if share.id not in offered
    ]
    overlapping = [
        (share.id, share.resource, share.why)
        for share in survey.shares.refused
        if share.id in offered and "has it already" in share.why
    ]
    return sorted([*unreadable, *refused, *overlapping])


def _columns(rows: Iterable[Sequence[str]]) -> str:
    """Return rows with columns as wide as they need to be."""
    lines = list(rows)
    widths = [max(len(row[number]) for row in lines) for number in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in lines
    )
