"""Random pods that make a kubelet's managers work: pure, and the same for the same seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.vm.node import SCHEDULER

from numakube.kubelet.machine import Machine

_MIB: Final = 1 << 20
_FOREVER: Final = ("/bin/sleep", "1000000")
_AT_ONCE: Final = ("/bin/true",)
IMAGE: Final = "numakube.test/busybox:1"


@dataclass(frozen=True, slots=True)
class PodMaker:
    """Draws pods that may fit the machine.

    Attributes:
        machine: whose zones the sizes are drawn for.
        rng: the source of randomness.
        wide: whether pods larger than a zone make sense, which depends on the policy.
        whole_cores: whether most pods ask for whole cores, because others are refused.
        stuck: whether pods are to wait for a Secret that never comes: they are admitted, and
            nothing of them has to be run.
    """

    machine: Machine
    rng: Random
    wide: bool = False
    whole_cores: bool = False
    stuck: bool = False

    def plain(self, name: str) -> dict[str, Any]:
        """Return a pod that any node has room for."""
        return self._pod(name, [self._container("main", {"requests": {"cpu": "10m"}})])

    def draw(self, name: str) -> dict[str, Any]:
        """Return a pod for our scheduler."""
        kind = self.rng.random()
        if kind < 0.1:
            containers = [self._container("main", self._burstable())]
        elif kind < 0.65:
            containers = [self._container("main", self._guaranteed())]
        elif kind < 0.8:
            containers = [
                self._container("a", self._guaranteed()),
                self._container("b", self._small()),
            ]
        else:
            containers = [self._container("main", self._guaranteed())]
        pod = self._pod(name, containers)
        if kind >= 0.8:
            pod["spec"]["initContainers"] = self._init_containers()
        return pod

    def _pod(self, name: str, containers: list[dict[str, Any]]) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "schedulerName": SCHEDULER,
            "hostNetwork": True,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "containers": containers,
        }
        if self.stuck:
            spec["volumes"] = [{"name": "never", "secret": {"secretName": "does-not-exist"}}]
        metadata = {"name": name, "namespace": "default"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _init_containers(self) -> list[dict[str, Any]]:
        chosen = []
        if self.rng.random() < 0.6:
            chosen.append(self._container("prepare", self._small(), command=_AT_ONCE))
        if self.rng.random() < 0.6:
            chosen.append(self._container("side", self._small(), restartPolicy="Always"))
        if self.rng.random() < 0.4 or not chosen:
            chosen.append(self._container("last", self._small(), command=_AT_ONCE))
        return chosen

    def _container(
        self,
        name: str,
        resources: Mapping[str, Any],
        *,
        command: tuple[str, ...] = _FOREVER,
        **more: str,
    ) -> dict[str, Any]:
        never = [{"name": "never", "mountPath": "/never"}] if self.stuck else []
        return {
            "name": name,
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "command": list(command),
            "resources": resources,
            "volumeMounts": never,
            **more,
        }

    def _guaranteed(self) -> dict[str, Any]:
        amounts = {"cpu": self._cpu(), "memory": self._memory(), **self._extras()}
        return {"requests": amounts, "limits": amounts}

    def _small(self) -> dict[str, Any]:
        cpu = self.rng.choice(["1", "2", "500m"])
        if cpu == "1":
            cpu = str(self._whole(1))
        amounts = {"cpu": cpu, "memory": f"{self.rng.choice([32, 64, 128])}Mi"}
        return {"requests": amounts, "limits": amounts}

    def _burstable(self) -> dict[str, Any]:
        devices = self._devices()
        requests = {"cpu": self.rng.choice(["100m", "1", "2"]), "memory": "64Mi", **devices}
        return {"requests": requests, "limits": devices}

    def _cpu(self) -> str:
        most = max(len(node.cores) * len(node.cores[0].threads) for node in self._with_cpus())
        kind = self.rng.random()
        if kind < 0.12:
            return self.rng.choice(["500m", "1500m", "2500m"])
        limit = max(1, most // 2) if kind < 0.6 else 2 * most if self.wide else most
        return str(self._whole(self.rng.randint(1, limit)))

    def _whole(self, cpus: int) -> int:
        """Return *cpus*, mostly rounded up to whole cores if that is wanted."""
        threads = len(self._with_cpus()[0].cores[0].threads)
        if self.whole_cores and self.rng.random() < 0.9:
            return -(-cpus // threads) * threads
        return cpus

    def _memory(self) -> str:
        smallest = min(node.memory_bytes for node in self.machine.nodes if node.memory_bytes)
        part = self.rng.choice([16, 16, 8, 8, 6, 4, 3, 2] + ([1] if self.wide else []))
        return f"{max(32, smallest // part // _MIB // 2)}Mi"

    def _extras(self) -> dict[str, str]:
        extras = self._devices()
        pools = self.machine.nodes[0].hugepages
        if pools and pools[0].count and self.rng.random() < 0.2:
            size = pools[0].page_bytes // _MIB
            count = self.rng.randint(1, max(1, pools[0].count // 2))
            extras[f"hugepages-{size}Mi"] = f"{count * size}Mi"
        return extras

    def _devices(self) -> dict[str, str]:
        return {
            name: str(self.rng.randint(1, 3 if self.wide else 2))
            for name, devices in sorted(self.machine.devices.items())
            if devices and self.rng.random() < 0.25
        }

    def _with_cpus(self) -> list[Any]:
        return [node for node in self.machine.nodes if node.cores]


def bound_directly(pod: Mapping[str, Any], name: str, node: str) -> dict[str, Any]:
    """Return a twin of *pod* that no scheduler is asked for."""
    spec = {key: value for key, value in pod["spec"].items() if key != "schedulerName"}
    metadata = {"name": name, "namespace": "default"}
    return {**pod, "metadata": metadata, "spec": {**spec, "nodeName": node}}
