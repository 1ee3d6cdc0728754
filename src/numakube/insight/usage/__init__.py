"""How full a cluster is, zone by zone: what is used, free and stranded, and what still fits.

`shapes` says what fits and what is stranded, `nodes` adds up zones and nodes, `pods` says which
zones each pod occupies. Everything is linear in the number of zones: 5,000 nodes of eight zones
take about a second.
"""
