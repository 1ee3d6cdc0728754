"""Planning: what would become of pods, and which to move so that others fit."""
