"""What the tools of ``kubectl numa`` know of a cluster, and what they conclude: explain, top, map.

Everything is a pure function of `numakube.insight.collected.Collected`: raw answers of the API
server and of schedulers, just read or taken out of a bundle. So an answer given offline is the
answer that would have been given then and there.
"""
