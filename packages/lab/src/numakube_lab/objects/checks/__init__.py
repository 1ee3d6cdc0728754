"""Checks that several kinds share: metadata, numbers, addresses, selectors, taints."""
