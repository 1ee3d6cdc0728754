"""The volume plugins: restrictions, limits per node, binding, and zones.

They follow kube-scheduler 1.37 with its defaults. In-tree volumes of clouds count against the
limits of the CSI drivers that took them over.
"""
