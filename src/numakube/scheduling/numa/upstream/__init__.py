"""Upstream mode: the verdicts and scores of the Go plugin NodeResourceTopologyMatch.

Follows kubernetes-sigs/scheduler-plugins of August 2026. Each decision exists twice: a readable
reference, which works on NRT objects as the Go plugin does, and a vectorised form over the zone
table; tests hold them equal. What the two share is `demand`, the pod's side of it.

    config        what an NRT says of the Topology Manager
    zones         NUMA zones of an NRT
    demand        what a pod asks for
    filtering     reference filter                columns_filter     the same for all nodes
    strategies    reference scores of a zone      columns_score      the same for all nodes
    least_numa    reference LeastNUMANodes        columns_least_numa the same for all nodes
    regularity    which rows of the zone table read as the Go plugin reads the NRT
    engine        all of it behind `NumaEngine`

Where the Go plugin panics or leaves the range of scores we answer what was meant; the list is in
docs/reference/numa-plugin.md.
"""
