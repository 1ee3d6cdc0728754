"""The flight recorder: the latest attempts of each pod, always on, in bounded memory.

`flight_notes` are what is written down, `decision_notes` makes the biggest of them from a decision,
`flight_recorder.FlightRecorder` keeps them, and `flight_documents` shows them as plain data.
"""
