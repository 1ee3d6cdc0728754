"""PodTopologySpread: spreads pods evenly over zones, nodes or other domains.

Hard constraints filter, soft ones score. Pods without constraints of their own get the defaults of
the plugin's arguments, about the pods of the same services and owner. Follows kube-scheduler 1.35.
"""

from numakube.scheduling.plugins.pod_topology_spread.spread_plugin import PodTopologySpread

__all__ = ["PodTopologySpread"]
