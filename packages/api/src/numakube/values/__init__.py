"""Values with exact arithmetic: quantities, CPU sets, NUMA masks, resource names. Pure.

| module | what it has |
|---|---|
| `quantity` | Kubernetes quantities, with Go's int64 overflows |
| `resources` | resource names and their kinds, amounts in base units |
| `cpuset`, `numamask` | sets of CPUs and of NUMA nodes as integers |
| `times` | RFC 3339, and Go's durations |
| `names` | what is wrong with names, labels and ports, in the API server's words |
| `display` | amounts, zones and ages in words for people |
| `gotext` | strings, numbers, maps and JSON as Go writes them, and its int64 |
| `lazy_names` | public names of a package that are imported when they are first used |
"""
