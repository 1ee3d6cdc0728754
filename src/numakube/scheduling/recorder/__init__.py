"""The flight recorder: the latest attempts of each pod, always on, in bounded memory.

`notes` are what is written down, `condensing` makes the biggest of them from a decision,
`recorder.FlightRecorder` keeps them, and `flight_documents` shows them as plain data.
"""
