"""Kinds and names as kubectl takes them, and their completion.

``pod web``, ``pods web``, ``po web`` and ``pod/web`` are the same, so what ``-o name`` prints can
be given to any command. Names are completed from the cluster that the rest of the line is about.
"""

from __future__ import annotations

import asyncio
import difflib
import functools
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from numakube.cli.lazy_commands import LazyGroup
from numakube.cli.shared.connection_options import config_for, connected, current_cluster
from numakube.errors import NumakubeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

PLURALS: Final = {"node": "nodes", "pod": "pods", "zone": "zones", "namespace": "namespaces"}
_SHORT: Final = {
    "no": "node",
    "po": "pod",
    "ns": "namespace",
    "deploy": "deployment",
    "rs": "replicaset",
    "sts": "statefulset",
}
_WORKLOADS: Final = ("deployment", "job", "podgroup", "replicaset", "statefulset")
_WORDS: Final = {
    **{word: kind for kind in _WORKLOADS for word in (kind, f"{kind}s")},
    **{kind: kind for kind in PLURALS},
    **{plural: kind for kind, plural in PLURALS.items()},
    **dict.fromkeys(("claim", "claims", "resourceclaim", "resourceclaims"), "claim"),
    **_SHORT,
}
_OTHERS: Final = {
    **dict.fromkeys(("daemonset", "daemonsets", "ds"), "DaemonSet"),
    **dict.fromkeys(("cronjob", "cronjobs", "cj"), "CronJob"),
    **dict.fromkeys(("replicationcontroller", "replicationcontrollers", "rc"), "controller"),
}
"""Kinds that people name, and no command is about; a namespace of such a name takes -n."""
_METADATA_ONLY: Final = (
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
)
_SECONDS: Final = 3.0
_MOST: Final = 1000


def kind_of(word: str) -> str | None:
    """Return the kind that *word* stands for, whatever its number; None if it is no kind."""
    return _WORDS.get(word.lower())


def name_of(text: str, kind: str) -> str:
    """Return the name in ``NAME`` or ``KIND/NAME``.

    Raises:
        click.UsageError: it is the name of something else.
    """
    before, slash, name = text.partition("/")
    given = kind_of(before) if slash else None
    if given is None:
        return text
    if given != kind:
        raise click.UsageError(f"{text!r} is a {given}; a {kind} is wanted.")
    return name


def split_words(words: Sequence[str], kinds: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return kind and names; without words the first of *kinds*.

    The kind may be left out where there is only one.

    Raises:
        click.UsageError: it is not one of *kinds*.
    """
    if not words:
        return kinds[0], ()
    first, rest = words[0], words[1:]
    kind = kind_of(first.partition("/")[0])
    if "/" in first and kind in kinds:
        rest = words
    elif kind not in kinds and len(kinds) == 1 and (kind is None or not rest):
        kind, rest = kinds[0], words
    elif kind not in kinds:
        raise click.UsageError(_no_kind(first, kinds))
    return str(kind), tuple(name_of(word, str(kind)) for word in rest)


def _no_kind(word: str, kinds: Iterable[str]) -> str:
    known = [PLURALS[kind] for kind in kinds]
    near = difflib.get_close_matches(word.partition("/")[0], known, n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    return f"{word!r} is not one of {', '.join(known)}{hint}"


def names_argument(*kinds: str, metavar: str) -> Callable[..., Any]:
    """Declare a kind and names; they arrive as ``what``, which is plural, and ``names``."""

    def declare(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.argument("words", nargs=-1, metavar=metavar, type=_Words(kinds))
        @functools.wraps(command)
        def wrapped(*args: object, words: tuple[str, ...], **others: object) -> object:
            kind, names = split_words(words, kinds)
            return command(*args, what=PLURALS[kind], names=names, **others)

        return wrapped

    return declare


class ObjectName(click.ParamType[str]):
    """The name of a node, a pod or a namespace, with its kind before it or without."""

    def __init__(self, kind: str) -> None:
        self.kind = self.name = kind

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the bare name."""
        del param, ctx
        return name_of(value, self.kind)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer what the cluster has."""
        del param
        return completed(ctx, self.kind, incomplete)


class _Words(click.ParamType[str]):
    """One of the words that `split_words` takes."""

    name = "words"

    def __init__(self, kinds: Sequence[str]) -> None:
        self._kinds = kinds

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer kinds first, where there are several, then names."""
        typed = ctx.params.get(str(param.name)) or ()
        if typed:
            kind = kind_of(typed[0].partition("/")[0]) or self._kinds[0]
            return completed(ctx, kind, incomplete)
        if "/" not in incomplete and len(self._kinds) > 1:
            words = [PLURALS[kind] for kind in self._kinds]
            return [CompletionItem(word) for word in words if word.startswith(incomplete)]
        kind = kind_of(incomplete.partition("/")[0]) or self._kinds[0]
        return completed(ctx, kind, incomplete)


def completed(ctx: click.Context, kind: str, incomplete: str) -> list[CompletionItem]:
    """Return the names that *incomplete* may become; none if the cluster does not answer."""
    if kind in (*_WORKLOADS, "claim"):
        return []
    before, slash, _ = incomplete.partition("/")
    prefix = f"{before}/" if slash and kind_of(before) == kind else ""
    try:
        names = _names(ctx, "node" if kind == "zone" else kind)
    except (NumakubeError, OSError):
        return []
    found = (prefix + name for name in sorted(names))
    return [CompletionItem(name) for name in found if name.startswith(incomplete)]


def _names(ctx: click.Context, kind: str) -> list[str]:
    """Return what the cluster or the bundle has that the line is about."""
    bundle = ctx.params.get("bundle")
    given = ctx.params.get("namespace") or ""
    if bundle:
        from dataclasses import replace

        from numakube.cli.shared.cluster_options import facts_for

        facts = facts_for(replace(current_cluster(ctx), bundle=bundle))
        pods = [pod.metadata for pod in facts.pods]
        return {
            "node": list(facts.nodes),
            "pod": [pod.name for pod in pods if pod.namespace == (given or "default")],
            "namespace": list({pod.namespace for pod in pods}),
        }[kind]
    return asyncio.run(_listed(ctx, kind, given))


async def _listed(ctx: click.Context, kind: str, namespace: str) -> list[str]:
    import msgspec

    from numakube.kube.connection.transport import Request

    cluster = current_cluster(ctx)
    inside = namespace or config_for(cluster).namespace
    path = f"/api/v1/namespaces/{inside}/pods" if kind == "pod" else f"/api/v1/{PLURALS[kind]}"
    request = Request(
        method="GET",
        path=path,
        query=(("limit", str(_MOST)),),
        accept=_METADATA_ONLY,
        timeout=_SECONDS,
    )
    async with connected(cluster) as client:
        answer = await client.request(request, retry=False)
    return [item["metadata"]["name"] for item in msgspec.json.decode(answer.body)["items"]]


class KindGroup(LazyGroup):
    """A group whose first command is meant where no kind is named: ``explain web``, ``-f FILE``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the group's own options, of which there are none but for help."""
        if args and args[0].startswith("-") and args[0] not in self.get_help_option_names(ctx):
            args = [self._usual, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of a kind, whatever its number and whether it has a slash."""
        word, slash, _ = args[0].partition("/")
        kind = kind_of(word)
        if kind in self.lazy:
            words = [str(kind), *args] if slash else [str(kind), *args[1:]]
        elif word.lower() in _OTHERS and (slash or (args[1:] and args[1][0] != "-")):
            raise click.UsageError(
                f"{args[0]!r} is a {_OTHERS[word.lower()]}; {ctx.info_name} is about"
                f" {', '.join(self.lazy)}. Name one of its pods."
            )
        elif len(args) == 1 or args[1].startswith("-"):
            words = [self._usual, *args]
        else:
            words = args
        return super().resolve_command(ctx, words)

    @property
    def _usual(self) -> str:
        return next(iter(self.lazy))
