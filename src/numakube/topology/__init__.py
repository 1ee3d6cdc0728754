"""NodeResourceTopology objects of any producer, read into one form. Pure.

``view`` reads an object into a `NodeTopology`; ``exact_report`` is the annotation from which
``rebuild`` makes the kubelet model of the node; ``fingerprint`` and ``numa_placement`` are
upstream's formats.
"""
