"""The same random requests to the lab's API server and to a real one.

`sequences` makes requests from a seed, `bodies` the objects in them. `driving` sends them to one
server and `comparing` tells where two servers answered differently; `shrinking` leaves of a
sequence what a difference needs. Run as a module, it tries seed after seed::

    KUBEBUILDER_ASSETS=... python -m tests.lab.differential --seeds 0:100
"""
