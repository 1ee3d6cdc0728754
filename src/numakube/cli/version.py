"""``numakube version``: this program's version, and the API server's if there is one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import click

from numakube.cli.shared.cluster_options import facts_for
from numakube.cli.shared.connection_options import connected, live_options
from numakube.cli.shared.output_option import Output, output_option, print_document
from numakube.cli.shared.terminal import print_rows
from numakube.errors import ClusterUnreachable, ConfigError, MalformedObject
from numakube.version import VERSION

if TYPE_CHECKING:
    from numakube.cli.shared.connection_options import ClusterOptions

_NEGATIVE: Final = 1
_ENOUGH: Final = ("yes", "partly")


@click.command("version")
@click.option("--client", "only_client", is_flag=True, help="Ask no server.")
@click.option(
    "--check",
    "checked",
    is_flag=True,
    help="Look at the API server, the kubelets and our programs: do their versions go together?",
)
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@live_options
def command(cluster: ClusterOptions, output: Output, *, only_client: bool, checked: bool) -> int:
    """Print the versions of this program and the server.

    Without a cluster, or if it does not answer, only the version of the program is printed. With
    --check, exits with 1 if a version does not go together with this program, or is not known.
    """
    document: dict[str, Any] = {"clientVersion": {"gitVersion": f"v{VERSION}"}}
    if checked:
        if only_client:
            raise click.UsageError("--check asks the server, which --client rules out.")
        return _check(cluster, output, document)
    if not only_client:
        try:
            document["serverVersion"] = asyncio.run(_asked(cluster))
        except (ClusterUnreachable, ConfigError, MalformedObject) as error:
            click.echo(f"warning: {error}", err=True)
    if output is not Output.TABLE:
        print_document(document, output)
        return 0
    click.echo(f"numakube    {document['clientVersion']['gitVersion']}")
    if "serverVersion" in document:
        click.echo(f"Kubernetes  {document['serverVersion'].get('gitVersion', 'unknown')}")
    return 0


def _check(cluster: ClusterOptions, output: Output, document: dict[str, Any]) -> int:
    from dataclasses import asdict

    from numakube.insight.collected import DAEMON_SETS, DEPLOYMENTS, NODES
    from numakube.insight.version_skew import versions_in

    facts = facts_for(cluster, what={DAEMON_SETS, DEPLOYMENTS})
    found = versions_in(facts, VERSION)
    unread = (facts.missing(NODES), facts.missing(DAEMON_SETS), facts.missing(DEPLOYMENTS))
    hidden = [f"{one.what}: {one.why}" for one in unread if one is not None]
    code = _NEGATIVE if hidden or any(one.supported not in _ENOUGH for one in found) else 0
    if output is not Output.TABLE:
        document["versions"] = [asdict(one) for one in found]
        document["unreadable"] = hidden
        print_document(document, output)
        return code
    rows = [("this program", f"v{VERSION}", "-", "")]
    rows += [(one.what, one.version or "-", one.supported.value, one.why) for one in found]
    print_rows(("WHAT", "VERSION", "SUPPORTED", "WHY"), rows)
    for why in hidden:
        click.echo(f"Not known, {why}.")
    return code


async def _asked(cluster: ClusterOptions) -> dict[str, Any]:
    from numakube.kube.connection.transport import Request
    from numakube.kube.decode import read_answer

    async with connected(cluster) as client:
        answer = await client.request(Request(method="GET", path="/version"))
    return read_answer(dict[str, Any], answer.body, "version")
