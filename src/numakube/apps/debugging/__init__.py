"""The debugging endpoints that the scheduler and the extender share.

`attempts_endpoint` shows the flight recorder, `caches_endpoint` what is believed of nodes and held
for pods, `resync_endpoint` reads a node again, `loglevel_endpoint` changes what is logged.
Documents name their form (`documents.VERSION`) and are described in
``docs/reference/debug-endpoints.md``.
"""
