"""Public traces of GPU clusters: their rows, and the machines and pods that are made from them."""
