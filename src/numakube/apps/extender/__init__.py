"""The extender: NUMA-aware decisions for a stock kube-scheduler, over HTTP.

extender_messages   the messages of ``k8s.io/kube-scheduler/extender/v1``
verb_endpoints      their way in: limits, times, tokens; `filter_requests` reads them
verbs               filter, prioritize, preempt and bind
filter_nodes        what is said of nodes, in the words of `refusal_texts`
pending_binds       pods between kube-scheduler's decision and its bind call
bind_pods           check, reserve, bind; `lease_claims` keeps replicas from booking twice
kube_scheduler_preemption
                    where preemption is no way, and room that it is making
zone_preemption     preemption that clears the right zone
wake_pods           brings back pods that were refused and now fit
process             everything together, from settings to an exit code
"""
