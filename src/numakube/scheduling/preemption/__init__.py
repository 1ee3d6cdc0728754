"""Makes room for a pod that fits nowhere by evicting pods of lower priority.

Who may be evicted, in which order pods are spared and which node is chosen follows kube-scheduler
1.37 (DefaultPreemption). Three things differ. On a node with NUMA zones the victims are sought zone
by zone, so that one pod on the right zone is preferred to two on another. Nothing is evicted unless
every filter and the final check of the kubelet model then accept the pod. And nodes are tried in
the order of the least that could be lost on them, so that few are tried at all.

    victims              the fewest and least important pods on one node, and the least that must
                         be lost on each
    default_preemption   the post-filter plugin: whether this pod may evict, and on which node
"""
