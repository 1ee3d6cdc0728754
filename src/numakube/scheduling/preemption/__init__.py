"""Makes room for a pod that fits nowhere by evicting pods of lower priority.

Who may be evicted, in which order pods are spared and which node is chosen follows kube-scheduler
1.35 (DefaultPreemption). Three things differ. On a node with NUMA zones the victims are sought zone
by zone, so that one pod on the right zone is preferred to two on another. Nothing is evicted unless
every filter and the final check of the kubelet model then accept the pod. And nodes are tried in
the order of the least that could be lost on them, so that few are tried at all.

    victim_bounds        the least that must be lost on each node
    what_if_node         a what-if copy of a node with some pods removed
    disruption_budgets   which evictions violate a disruption budget
    victims              the fewest and least important pods on one node
    default_preemption   the post-filter plugin: whether this pod may evict, and on which node
    preemption_args      its arguments
"""
