"""GangScheduling: groups of pods that run together or not at all."""
