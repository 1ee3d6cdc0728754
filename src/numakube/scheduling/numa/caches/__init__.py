"""Caches that make beliefs about zones from reports, reservations and pods.

Between a bind and the node's next report it is uncertain what is free where. Four caches
answer that differently; all obey `cache_contract.NumaCache`, and none of them acts, waits or reads
a clock.

    passthrough       the report as it is; or also no further pod while one is being bound
    overreserve       upstream's: a pod is taken off every zone until a fingerprint names it
    predict           ours: a pod is taken off where the kubelet model puts it

What they are made of:

    known_pods        which pods are on a node, and how far each has come
    latest_reports    the latest report of each node
    since_report      what has happened since it
    report_coverage   which pods a report without names accounts for
    counts_belief     a belief by counts alone
    model_belief      a belief made with the kubelet model
    kubelet_states    what kubelets in the same state share of it
    debug_view        all of that for one node, for those who look inside
"""
