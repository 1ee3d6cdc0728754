"""What happened to a cluster over days, read from the Prometheus that scrapes it.

numakube keeps no history of its own: exporters and schedulers publish metrics, and whoever wants to
look back has something that keeps them already.
"""
