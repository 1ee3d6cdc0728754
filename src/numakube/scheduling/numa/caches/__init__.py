"""Caches that make beliefs about zones from reports, reservations and pods.

Between a bind and the node's next report it is uncertain what is free where. Four caches
answer that differently; all obey `contract.NumaCache`, and none of them acts, waits or reads a
clock.

    passthrough       the report as it is
    discardreserved   the report as it is, and no further pod while one is being bound
    overreserve       upstream's: a pod is taken off every zone until a fingerprint names it
    predict           ours: a pod is taken off where the kubelet model puts it
"""
