"""Runs a cluster in virtual time: the real scheduler, kubelet models, and workloads. Pure.

    result = simulate(cluster, workload, arm, seed=1)

`cluster_model` says what a cluster is, `workload` what comes to it, `compared_schedulers` how it is
run, and `run_result` what became of it. The kubelet model is the arbiter of every pod that the
scheduler binds.
"""
