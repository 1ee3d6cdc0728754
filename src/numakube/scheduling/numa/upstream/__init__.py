"""Upstream mode: the verdicts and scores of the Go plugin NodeResourceTopologyMatch.

Follows kubernetes-sigs/scheduler-plugins of August 2026. Each decision exists twice: a readable
reference, which works on NRT objects as the Go plugin does, and a vectorised form over the zone
table; tests hold them equal.

    plugin_inputs             what the Go plugin reads of an NRT and of a pod
    reference_zone_verdicts   verdict and scores of one node
    zone_verdicts             the same for all nodes at once
    least_numa                the strategy LeastNUMANodes, in both forms
    zone_columns              the arrays, and which rows read as the Go plugin reads the NRT
    upstream_engine           all of it behind `NumaEngine`

Where the Go plugin panics or leaves the range of scores we answer what was meant; the list is in
docs/reference/numa-plugin.md.
"""
