"""Upstream mode: the verdicts and scores of the Go plugin NodeResourceTopologyMatch.

Follows kubernetes-sigs/scheduler-plugins of August 2026. Each decision exists twice: a readable
reference, which works on NRT objects as the Go plugin does, and a vectorised form over the zone
table; tests hold them equal. What the two share is `pod_requests`, the pod's side of it.

    nrt_zones             what an NRT says of the Topology Manager, and its NUMA zones
    pod_requests          what a pod asks for
    reference_zone_filter, reference_zone_score, reference_least_numa
    zone_filter, zone_score, least_numa   the same for all nodes
    zone_columns          the arrays that they work on
    regular_rows          which rows of the zone table read as the Go plugin reads the NRT
    upstream_engine       all of it behind `NumaEngine`
    replay_filter         answers to recorded cases of the Go plugin

Where the Go plugin panics or leaves the range of scores we answer what was meant; the list is in
docs/reference/numa-plugin.md.
"""
