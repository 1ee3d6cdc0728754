"""The dashboard, web pages that show a cluster by NUMA zone, and maps of nodes as pictures.

The dashboard is a set of routes that a process mounts beside its own (scheduler, extender, lab), or
that ``numakube dashboard`` serves alone. Pages are rendered on the server from a `Source` (what the
API server says, and what the process knows besides) and are whole without JavaScript; with it they
follow the cluster by server-sent events and draw all zones at once.

numakube finds all of it by entry points; nothing here is public.
"""
