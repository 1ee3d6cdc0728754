"""Examples of every command, which its help ends with; a test reads each as its command would.

Those of annexes are in their manifests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.annexes import annexes

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "explain": ("pod web", "deployment/web -n team", "node node-0", "-f job.yaml"),
    "explain deployment": ("web", "deployment/web -n team -o json"),
    "explain statefulset": ("db",),
    "explain replicaset": ("web-6d4f",),
    "explain job": ("train",),
    "explain podgroup": ("train", "train -n team -o json"),
    "explain node": ("node-0", "node/node-0 -o json"),
    "explain claim": ("gpu", "claim/gpu -n team -o yaml"),
    "explain pod": ("web", "web -n team --node node-0", "-f job.yaml -o json"),
    "top": ("", "zones node/node-0", "namespaces --sort-by strands", "--shape cpu=8,memory=32Gi"),
    "map": ("node-0", "node/node-0 -w", "node-0 --output-file node.svg", "node-0 --with pod.yaml"),
    "doctor": ("", "--node node-0", "--only NUMA-POD -o json"),
    "bundle": ("", "--anonymise -o cluster.tar.gz"),
    "debug trace": ("pod web", "pod/web -n team -w"),
    "debug queue": ("", "-n team -o wide"),
    "debug cache": ("", "node/node-0"),
    "debug reservations": ("", "node-0 -o yaml"),
    "debug podresources": ("node-0", "node/node-0 -o json"),
    "debug resync": ("node-0", "--all"),
    "debug loglevel": ("", "debug --pod team/web --for 5m"),
    "plan admit": (
        "--example",
        '--machine "2 sockets, 8 cores, 32Gi" --kubelet policy=restricted -f pods.yaml',
        "--machine dgx-h100 -k kubelet.yaml -f pods.yaml",
    ),
    "check reports": ("", "node-0 -o json", "-f nrt.yaml --strict"),
    "check container": ("", "--memory -o json", "--stay"),
    "machine": ("/sys", "dgx-h100 -o text", "dgx-h100 -o matrix", "--presets"),
    "check kubelets": ("", "--policy restricted", "--patch node-0 --format flags", "--host /"),
    "setup": ("", "exporter scheduler --wait"),
    "deploy": ("", "exporter --wait", "--dry-run=client"),
    "remove": ("", "--dry-run=server"),
    "manifests render": (
        "",
        "operator --namespace numa",
        "scheduler --scheduler-arg cache.kind=overreserve",
    ),
    "manifests static-pod": ("scheduler", "extender --url-prefix https://10.96.0.7:10263"),
    "manifests images": ("", "all -o name"),
    "check cluster": ("", "-o yaml"),
    "run scheduler": ("", "--config scheduler.yaml --no-leader-elect"),
    "run extender": ("--bind-address 127.0.0.1:8888",),
    "run extender config": ("--manifests", "--deployment main"),
    "run exporter": ("--dry-run", "--sleep-interval 30s"),
    "run operator": ("",),
    "run gc": ("--oneshot --dry-run",),
    "check": ("kubelets", "pods -n team", "reports"),
    "plan": ("simulate --from cluster.yaml", "defrag pod/web"),
    "debug": ("trace pod web", "queue", "cache node-0"),
    "manifests": ("render", "images -o name"),
    "run": ("scheduler", "exporter --dry-run"),
    "replay": ("kubelet cases.jsonl.gz --check", "bundle numakube-bundle.tar.gz --check"),
    "replay bundle": ("numakube-bundle.tar.gz --check",),
    "completion": ("bash",),
    "version": ("", "--check", "--client -o json"),
    "help": ("", "top zones", "topic", "topic pods"),
}
"""What stands behind the name of a command."""


def examples_of(path: str) -> tuple[str, ...]:
    """Return what may stand behind the command at *path*."""
    own = EXAMPLES.get(path)
    if own is not None:
        return (*own, *_nouns(path))
    return next((annex.examples[path] for annex in annexes() if path in annex.examples), ())


def _nouns(path: str) -> Iterator[str]:
    """Yield the nouns that annexes add to the command at *path*, as in ``top domains``."""
    from numakube.cli.command_table import GROUPS

    for annex in annexes():
        if annex.is_installed:
            names = (added.name for added in annex.commands if added.name.startswith(f"{path} "))
            yield from (name.removeprefix(f"{path} ") for name in names if path not in GROUPS)


def examples_text(path: str, program: str) -> str:
    """Return the examples of the command at *path*, as click prints them; empty if none."""
    lines = [f"  {program} {path} {words}".rstrip() for words in examples_of(path)]
    return "\n".join(["\b", "Examples:", *lines]) if lines else ""
