"""The debugging endpoints that the scheduler and the extender share.

`attempts` shows the flight recorder, `caches` what is believed of nodes and held for pods, `resync`
reads a node again, `levels` changes what is logged. Documents name their form (`documents.VERSION`)
and are described in ``docs/reference/debug-endpoints.md``.
"""
