"""What a cycle sees: nodes and pods as objects for rules and as arrays for speed.

`cluster.Cluster` is kept up to date event by event; `cluster.Snapshot` is the read-only view of it
that one cycle works on. Taking a view costs nothing: no event is handled while a cycle runs, and a
view that outlives its cycle says so when it is used.
"""
