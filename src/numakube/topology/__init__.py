"""NodeResourceTopology objects of any producer, read into one form. Pure.

``topology_view`` reads an object into a `NodeTopology`; ``exact_report`` is the annotation from
which ``model_from_report`` makes the kubelet model of the node; ``fingerprint`` and
``numa_placement`` are upstream's formats.
"""
