"""Reads everything that the tools need from a live cluster into one `Collected`.

    collected = await gather(client, what=SCHEDULING)

Nodes and pods must be readable; everything else is read as far as the server has it and the user
may see it, and what is missing is noted with the reason.
"""

from numakube.apps.gathering.gather import gather
from numakube.apps.gathering.gathered_kinds import EVERYTHING, LISTED, SCHEDULING, ZONES

__all__ = ["EVERYTHING", "LISTED", "SCHEDULING", "ZONES", "gather"]
