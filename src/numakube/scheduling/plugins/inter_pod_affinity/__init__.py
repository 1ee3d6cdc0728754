"""InterPodAffinity: places pods near or far from other pods, within topology domains.

Required terms of the pod and required anti-affinity of the pods that run filter; preferences of
both, and required affinity of those that run, score. Follows kube-scheduler 1.35.
"""

from numakube.scheduling.plugins.inter_pod_affinity.affinity_plugin import InterPodAffinity

__all__ = ["InterPodAffinity"]
