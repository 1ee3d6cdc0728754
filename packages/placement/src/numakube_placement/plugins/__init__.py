"""Koordinator's plugins, for pods that the scheduler itself places on zones.

`NodeNUMAResource` is called as Koordinator's plugin is, takes its arguments and writes the same
annotations; what it decides is in `numakube_placement.koordinator`. It has no state of its own:
what pods hold of a node follows from the pods that the cluster has there (`node_ledgers`), those
that are on their way included, because they are counted with the annotations that their binding
carries.
"""
