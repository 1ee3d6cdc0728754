"""Deciding where a pod runs: contract, snapshot, plugins, queue and one scheduling cycle.

Pure: nothing here talks to a cluster, reads a clock or draws random numbers by itself. A cycle
looks at a snapshot and returns a decision; the processes of `numakube.apps` carry it out.

    framework/   the contract between plugins and those who run them, after kube-scheduler's
    snapshot/    what is known of nodes and pods: objects for rules, arrays for speed
    plugins/     the predicates and scores of kube-scheduler's default profile
    numa/        what we add: alignment on NUMA zones, and the reservations that it needs
"""
