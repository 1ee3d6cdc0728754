"""The rebalancer: moves pods as `numakube_planning.defrag` plans it, one after the other."""
