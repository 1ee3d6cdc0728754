"""NUMA-aware scheduling for a stock kube-scheduler, over the scheduler-extender protocol.

protocol    the messages of ``k8s.io/kube-scheduler/extender/v1``
endpoints   their way in: limits, times, tokens
verbs       filter, prioritize, preempt and bind
judging     what is said of nodes, in the words of `texts`; `hopeless` where preemption is no way
holds       pods between kube-scheduler's decision and its bind call
booking     the bind: check, reserve, bind; `claims` keeps replicas from booking a zone twice
victims     preemption that clears the right zone; `rooms` waits for it to be clear
waking      brings back pods that were refused and now fit
process     everything together, from options to an exit code
"""
