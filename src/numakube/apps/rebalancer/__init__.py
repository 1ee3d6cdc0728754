"""The rebalancer: moves pods as `numakube.insight.defrag` plans it, one after the other."""
