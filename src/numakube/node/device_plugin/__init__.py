"""The device plugin protocol between a kubelet and the plugins on its node."""
