"""The NUMA part of Koordinator's API: annotations, labels and the Device resource.

Keys and JSON follow Koordinator's ``apis/extension``, so that existing manifests work unchanged.
What we add (scope, per-container rules and results) is marked as ours where it stands; readers that
do not know it pass over it.
"""
