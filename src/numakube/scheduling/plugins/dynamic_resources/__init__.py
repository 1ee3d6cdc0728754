"""DynamicResources: allocates devices to the claims of pods (DRA), as kube-scheduler 1.37 does.

Decisions come from `numakube.dra`. From reserving a node until the claim is written, an allocation
is in flight: it counts as taken for every other pod, and other pods of the same claim wait for it.
"""

from numakube.scheduling.plugins.dynamic_resources.claims_plugin import DynamicResources

__all__ = ["DynamicResources"]
