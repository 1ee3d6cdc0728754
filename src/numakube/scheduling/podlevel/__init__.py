"""NUMA placement that pods and node labels ask for, on nodes whose kubelet aligns nothing.

The plugin is called `NodeNUMAResource`, as Koordinator's is, takes its arguments and writes the
same annotations. It has no state of its own: what pods hold of a node follows from the pods that
the cluster has there (`book`), those that are on their way included, because they are counted with
the annotations that their binding carries.
"""
