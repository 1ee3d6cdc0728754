"""What pods hold on a node by a scheduler's decision, and the annotations that record it."""
