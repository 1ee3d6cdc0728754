"""The extender: NUMA-aware decisions for a stock kube-scheduler, over HTTP.

extender_messages   the messages of ``k8s.io/kube-scheduler/extender/v1``
verb_endpoints      their way in: limits, times, tokens
verbs               filter, prioritize, preempt and bind
filter_nodes        what is said of nodes, virtual ones among them
pending_binds       pods between kube-scheduler's decision and its bind call
bind_pods           check, reserve, bind; leases keep replicas from booking twice
preemption          where it is no way, room that it is making, and the right zone
wake_pods           brings back pods that were refused and now fit
process             everything together, from settings to an exit code
"""
