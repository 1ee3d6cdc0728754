"""Dynamic resource allocation: claims, device classes and resource slices."""
