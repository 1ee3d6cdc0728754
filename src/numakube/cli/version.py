"""``numakube version``: this program's version, and the API server's if there is one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from numakube.cli.shared.connection_options import connected, live_options
from numakube.cli.shared.output_option import Output, output_option, print_document
from numakube.errors import ClusterUnreachable, ConfigError, MalformedObject
from numakube.version import VERSION

if TYPE_CHECKING:
    from numakube.cli.shared.connection_options import ClusterOptions


@click.command("version")
@click.option("--client", "only_client", is_flag=True, help="Ask no server.")
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@live_options
def command(cluster: ClusterOptions, output: Output, *, only_client: bool) -> None:
    """Print the versions of this program and the server.

    Without a cluster, or if it does not answer, only the version of the program is printed.
    """
    document: dict[str, Any] = {"clientVersion": {"gitVersion": f"v{VERSION}"}}
    if not only_client:
        try:
            document["serverVersion"] = asyncio.run(_asked(cluster))
        except (ClusterUnreachable, ConfigError, MalformedObject) as error:
            click.echo(f"warning: {error}", err=True)
    if output is not Output.TABLE:
        print_document(document, output)
        return
    click.echo(f"numakube    {document['clientVersion']['gitVersion']}")
    if "serverVersion" in document:
        click.echo(f"Kubernetes  {document['serverVersion'].get('gitVersion', 'unknown')}")


async def _asked(cluster: ClusterOptions) -> dict[str, Any]:
    from numakube.kube.connection.transport import Request
    from numakube.kube.decode import read_answer

    async with connected(cluster) as client:
        answer = await client.request(Request(method="GET", path="/version"))
    return read_answer(dict[str, Any], answer.body, "version")
