"""The programs of numakube, what they share, and what hosts them.

host            settings, command line, logs, server, access and end of every program
scheduler, extender, exporter, operator, gc
                one package for each program of `numakube.programs`: what it does is in `process`,
                its settings in `settings`
debugging       endpoints by which tools look inside a scheduler or an extender
debug_client    how those tools reach them
cluster_mirror  what the API server says, kept as the state that decisions need
flight_recording
                what happens to pods, for the flight recorder
gathering, bundle, cluster_file, anonymising
                a cluster read into one file, from one, and the file without names
deployer        brings components onto a cluster and takes them away

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.apps.bundle import unpack
    from numakube.apps.cluster_file import read_cluster
    from numakube.apps.debug_client import Reached, reach_schedulers
    from numakube.apps.flight_recording import Recording

__all__ = [
    "Reached",
    "Recording",
    "reach_schedulers",
    "read_cluster",
    "unpack",
]

__getattr__ = lazy_names(
    __name__,
    {
        "bundle": "unpack",
        "cluster_file": "read_cluster",
        "debug_client": "Reached reach_schedulers",
        "flight_recording": "Recording",
    },
)
