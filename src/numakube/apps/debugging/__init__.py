"""The debugging endpoints that the scheduler and the extender share.

`state_endpoints` show the flight recorder and what is believed of nodes and held for pods, and read
a node again; `loglevel_endpoint` changes what is logged.
`annex_endpoints` adds what annexes serve. Documents name their form (`documents.VERSION`) and are
described in ``docs/reference/debug-endpoints.md``.
"""
