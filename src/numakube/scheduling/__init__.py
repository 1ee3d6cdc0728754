"""Decides where a pod runs: snapshot, plugins, queue, and the scheduling cycle. Pure.

Pure: nothing here talks to a cluster, reads a clock or draws random numbers by itself. A cycle
looks at a snapshot and returns a decision; the processes of `numakube.apps` carry it out.

Lowest first; an import points downwards only:

    arrays       names for the arrays that nodes are judged with
    snapshot/    what is known of nodes and pods: objects for rules, arrays for speed
    matching/    node selectors and taints, for one node and for all
    framework/   the contract between plugins and those who run them, after kube-scheduler's
    plugins/     the predicates and scores of kube-scheduler's default profile
    numa/        what we add: alignment on NUMA zones, and the reservations that it needs
    koordinator/ placement by the scheduler itself, as annotations ask for it
    preemption/  which pods make room for one that fits nowhere
    queue/       which pod is tried next
    cycle        one attempt: from a pod and the snapshot to a decision
    recorder/    what decisions were made of, for people
    config/      from a KubeSchedulerConfiguration to plugins
    assembly     every plugin there is, and the engine of a scheduler made of them
    gang_planning
                 one plan for all members of a gang
    scheduler_replay, dra_replay
                 answers to recorded cases of kube-scheduler
"""
