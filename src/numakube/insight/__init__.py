"""What the tools know of a cluster and conclude from it: explain, doctor, map, top. Pure.

`explain` says why a pod is where it is or nowhere, `usage` how full zones are (``top``), `drawing`
draws a node (``map``), `doctor` finds what is wrong, `bundle_replay` decides again about the pods
of a bundle, and `pod_timeline` tells the story of one pod (``trace``). `scheduler_engine` fills the
scheduler's own engine with the `facts` of a cluster.

Everything is a pure function of `numakube.insight.collected.Collected`: raw answers of the API
server and of schedulers, just read or taken out of a bundle. So an answer given offline is the
answer that would have been given then and there.
"""
