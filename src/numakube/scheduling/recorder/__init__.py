"""The flight recorder: the latest attempts of each pod, always on, in bounded memory.

`flight_recorder` has what is written down, as notes, and the `FlightRecorder` that keeps them;
`decision_notes` makes the biggest of them from a decision, and `flight_documents` shows them as
plain data.

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.scheduling.recorder.flight_recorder import (
        AdmittedNote,
        BoundNote,
        EndedNote,
        Flight,
        FlightRecorder,
        FlightSubject,
        MispredictedNote,
        NotBoundNote,
        Note,
        ObservedNote,
        RecordedAttempt,
        RejectedNote,
        ReservedNote,
        ToldNote,
        TriedNote,
    )

__all__ = [
    "AdmittedNote",
    "BoundNote",
    "EndedNote",
    "Flight",
    "FlightRecorder",
    "FlightSubject",
    "MispredictedNote",
    "NotBoundNote",
    "Note",
    "ObservedNote",
    "RecordedAttempt",
    "RejectedNote",
    "ReservedNote",
    "ToldNote",
    "TriedNote",
]

__getattr__ = lazy_names(
    __name__,
    {
        "flight_recorder": (
            "FlightRecorder AdmittedNote BoundNote EndedNote Flight FlightSubject "
            "MispredictedNote NotBoundNote Note ObservedNote RecordedAttempt "
            "RejectedNote ReservedNote ToldNote TriedNote"
        ),
    },
)
