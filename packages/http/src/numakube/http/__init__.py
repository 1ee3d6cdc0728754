"""HTTP for programs: cheap answers to plain requests, and a log that nobody can fill.

What `__all__` names is public; the modules themselves may change.
"""

from numakube.http.plain_requests import (
    Answer,
    Answered,
    Head,
    PlainRequests,
    names_this_machine,
    response_of,
)
from numakube.http.server_log import SERVER_LOG, BadRequests

__all__ = [
    "SERVER_LOG",
    "Answer",
    "Answered",
    "BadRequests",
    "Head",
    "PlainRequests",
    "names_this_machine",
    "response_of",
]
