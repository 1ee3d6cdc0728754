"""How a definition that others installed gets the versions that ours has and it lacks.

Versions are only added. What is stored stays readable: definitions of ours convert nothing, so
every version is the same object with some fields unknown. The version of storage becomes ours: an
older one would lose the fields that it does not know. A definition that another program keeps as it
is, or that has versions which we do not know, is left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.apps.ownership_labels import manager_of

if TYPE_CHECKING:
    from numakube.kube.resource_types import Document

_OLM: Final = "olm.managed"


def missing_versions(live: Document, wanted: Document) -> list[str]:
    """Return the versions that *wanted* has and *live* lacks."""
    there = {one["name"] for one in live["spec"]["versions"]}
    return [one["name"] for one in wanted["spec"]["versions"] if one["name"] not in there]


def hindrance_to_upgrade(live: Document, wanted: Document) -> str:
    """Return why *live* cannot be given the versions of *wanted*; empty if it can."""
    known = {one["name"] for one in wanted["spec"]["versions"]}
    newer = [one["name"] for one in live["spec"]["versions"] if one["name"] not in known]
    keeper = "OLM" if _OLM in live["metadata"].get("labels", {}) else manager_of(live)
    if live["spec"]["scope"] != wanted["spec"]["scope"]:
        return f"its objects are {live['spec']['scope']}, which cannot be changed; delete it first"
    if newer:
        return f"it has {', '.join(newer)}, which this release does not know"
    if any(
        (one["spec"].get("conversion") or {}).get("strategy", "None") != "None"
        for one in (live, wanted)
    ):
        return "a webhook has to convert between its versions"
    return f"{keeper} manages it; upgrade it there" if keeper else ""


def upgraded(live: Document, wanted: Document) -> Document:
    """Return *live* with the versions of *wanted* that it lacks; others own the rest of it."""
    added = missing_versions(live, wanted)
    stored = next(one["name"] for one in wanted["spec"]["versions"] if one["storage"])
    entries: list[dict[str, Any]] = [
        *live["spec"]["versions"],
        *(one for one in wanted["spec"]["versions"] if one["name"] in added),
    ]
    versions = [{**one, "storage": one["name"] == stored} for one in entries]
    return {**live, "spec": {**live["spec"], "versions": versions}}
