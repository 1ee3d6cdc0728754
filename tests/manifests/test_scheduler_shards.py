"""Shards are deployed as a Deployment each, with rights to their own leases."""

from __future__ import annotations

from numakube.manifests.scheduler import NAME, SchedulerManifest


def test_each_shard_has_a_deployment_that_no_other_selects() -> None:
    """Its pods know their shard, and stand by for each other."""
    objects = SchedulerManifest(shards=2, replicas=3).objects()
    deployments = [item for item in objects if item["kind"] == "Deployment"]
    assert [deployment["metadata"]["name"] for deployment in deployments] == [
        f"{NAME}-0",
        f"{NAME}-1",
    ]
    for number, one in enumerate(deployments):
        spec = one["spec"]
        (container,) = spec["template"]["spec"]["containers"]
        assert container["args"][-1] == f"--shard={number}"
        assert spec["selector"]["matchLabels"]["numakube.dev/shard"] == str(number)
        assert (
            spec["selector"]["matchLabels"].items()
            <= spec["template"]["metadata"]["labels"].items()
        )
        assert spec["replicas"] == 3


def test_shards_may_write_their_leases_and_list_those_of_others() -> None:
    """Without shards nothing may be listed."""

    def lease_rights(shards: int) -> set[tuple[str, str]]:
        roles = [
            item for item in SchedulerManifest(shards=shards).objects() if item["kind"] == "Role"
        ]
        return {
            (verb, name)
            for role in roles
            for rule in role["rules"]
            if "leases" in rule["resources"]
            for verb in rule["verbs"]
            for name in rule.get("resourceNames", [""])
        }

    assert {("list", ""), ("update", "numakube-scheduler-shard-1")} <= lease_rights(2)
    assert ("list", "") not in lease_rights(1)
