"""``numakube plan admit``: what the kubelet of a given node would do with given pods."""

from __future__ import annotations

import sys
from importlib.resources import files
from typing import TYPE_CHECKING

import click

from numakube.cli.shared.machine_argument import MachineParameter, load_machine, read_text
from numakube.cli.shared.output_option import (
    Output,
    can_draw,
    make_console,
    output_option,
    print_document,
    text_width,
)
from numakube.cli.shared.terminal import say
from numakube.errors import KubeletStartError

if TYPE_CHECKING:
    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.api.pod import Pod
    from numakube.cli.admit.admissions import AdmissionVerdict
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.machine import Machine


@click.command("admit")
@click.option(
    "-m", "--machine", type=MachineParameter(), help="A shape, a preset, a file or a sysfs tree."
)
@click.option(
    "-k",
    "--kubelet-config",
    "kubelet_configs",
    type=click.Path(allow_dash=True),
    multiple=True,
    help="KubeletConfiguration, answer of /configz, KubeletConfig of OpenShift, file with"
    " KUBELET_EXTRA_ARGS, or folder of drop-ins or kubeadm patches. Later ones win, flags always.",
)
@click.option(
    "--kubelet",
    metavar="WORDS",
    help="Instead of a file: as in policy=restricted,scope=pod,full-pcpus-only=true.",
)
@click.option(
    "-f",
    "--pods",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Pods in the order of their arrival, or workloads with pod templates.",
)
@click.option("--kubernetes", metavar="VERSION", help="Version of the kubelet.  [default: 1.35]")
@click.option("--example", is_flag=True, help="A built-in machine with built-in pods.")
@click.option("--ascii", "plain", is_flag=True, help="Draw with plain characters.")
@output_option(Output.TABLE, Output.WIDE, Output.JSON, Output.YAML, Output.NAME)
@click.pass_context
def command(
    ctx: click.Context,
    *,
    machine: str | None,
    kubelet_configs: tuple[str, ...],
    kubelet: str | None,
    pods: str | None,
    kubernetes: str | None,
    example: bool,
    plain: bool,
    output: Output,
) -> None:
    """What would this node's kubelet do with these pods?

    The pods are admitted one after the other to an empty node. Prints each verdict, what every
    container gets, and the NUMA zones afterwards. The exit code is 1 if a pod is rejected, also
    with `-o json`; with `--example` it is always 0.
    """
    if example:
        node, verdicts = run_example(kubernetes)
    else:
        if machine is None or pods is None or bool(kubelet_configs) == (kubelet is not None):
            raise click.UsageError(
                "Give --machine, --pods, and --kubelet-config or --kubelet; or --example."
            )
        hardware = load_machine(machine)
        config = _configured(kubelet_configs, kubelet or "", hardware)
        subject = ", ".join(kubelet_configs) or "--kubelet"
        node, verdicts = _ask(hardware, config, subject, _read(pods), kubernetes)
    plain = plain or not can_draw(sys.stdout.encoding)
    if example and output in (Output.TABLE, Output.WIDE):
        _tell_story(node, verdicts, output, plain=plain)
    else:
        _print(node, verdicts, output, plain=plain)
    if not example and any(not verdict.admitted for verdict in verdicts):
        ctx.exit(1)


def _read(pods: str) -> tuple[Pod, ...]:
    from numakube.cli.admit.pod_inputs import read_pods

    return read_pods(read_text(pods), pods)


def _configured(files: tuple[str, ...], words: str, machine: Machine) -> KubeletConfiguration:
    """Return the configuration in *files*, or that of *words* as for nodes of the lab."""
    if not files:
        from numakube.kubelet.config_from_words import lab_configuration, parse_kubelet_options

        return lab_configuration(machine, parse_kubelet_options(words))
    from numakube.api.kubelet_config import merged, read_source
    from numakube.node.kubelet_files import files_in

    named = [name for file in files for name in files_in(file)]
    sources = [(name, read_source(read_text(name), name)) for name in named]
    for name, source in sources:
        for field in source.unknown:
            text = f"warning: {name}: the field {field} is not known and has no effect"
            click.echo(text, err=True)
    return merged(source for _, source in sources)


def run_example(kubernetes: str | None = None) -> tuple[KubeletNode, list[AdmissionVerdict]]:
    """Ask about the built-in pods; the three files are in the folder ``example``."""
    from numakube.api.kubelet_config import read_kubelet_config
    from numakube.cli.admit.pod_inputs import read_pods
    from numakube.kubelet.machines.shape_text import from_shape

    folder = files("numakube.cli.admit") / "example"
    machine, config, pods = (
        (folder / name).read_text() for name in ("machine.txt", "kubelet.yaml", "pods.yaml")
    )
    parsed = read_pods(pods, "pods.yaml")
    settings = read_kubelet_config(config, "kubelet.yaml")
    return _ask(from_shape(machine.strip()), settings, "kubelet.yaml", parsed, kubernetes)


def _ask(
    machine: Machine,
    config: KubeletConfiguration,
    config_name: str,
    pods: tuple[Pod, ...],
    kubernetes: str | None,
) -> tuple[KubeletNode, list[AdmissionVerdict]]:
    from numakube.cli.admit.admissions import decide
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.kubelet_versions import DEFAULT
    from numakube.kubelet.manager_settings import allocatable_of, settings_of

    try:
        settings = settings_of(config, machine)
        node = KubeletNode(machine, settings, kubernetes=kubernetes or DEFAULT)
    except KubeletStartError as error:
        raise KubeletStartError(
            f"{config_name}: the kubelet would not start on this machine: {error}"
        ) from None
    verdicts = decide(node, pods, allocatable_of(config, machine))
    node.collect_garbage()
    return node, verdicts


def _tell_story(
    node: KubeletNode, verdicts: list[AdmissionVerdict], output: Output, *, plain: bool
) -> None:
    """Print the example with what it is about before and after it."""
    from numakube.kubelet.machines.shape_text import to_shape

    settings = node.settings
    click.echo(f"A machine:  {to_shape(node.machine)}")
    click.echo(
        f"A kubelet:  Topology Manager {settings.topology_policy}, CPU Manager"
        f" {settings.cpu_policy}, Memory Manager {settings.memory_policy}"
    )
    click.echo(f"Pods:       {', '.join(verdict.pod.metadata.name for verdict in verdicts)}\n")
    _print(node, verdicts, output, plain=plain)
    click.echo(
        "\nThe node as a whole has room for `training`; no single NUMA node has. A scheduler that"
        "\ncounts per node sends it here, and the kubelet refuses it. Try your own pods:\n"
        '\n    numakube plan admit --machine "2 sockets, 8 cores, smt 2, 32Gi, gpu 2" \\'
        "\n        --kubelet-config kubelet.yaml --pods pods.yaml"
    )


def _print(
    node: KubeletNode, verdicts: list[AdmissionVerdict], output: Output, *, plain: bool
) -> None:
    if output is Output.NAME:
        for verdict in verdicts:
            if verdict.admitted:
                say(f"pod/{verdict.pod.metadata.name}")
    elif output in (Output.JSON, Output.YAML):
        _print_data(node, verdicts, output)
    else:
        _draw(node, verdicts, wide=output is Output.WIDE, plain=plain)


def _print_data(node: KubeletNode, verdicts: list[AdmissionVerdict], output: Output) -> None:
    from numakube.cli.admit.admissions import verdict_document
    from numakube.cli.admit.admit_tables import picture_after, zone_documents

    major, minor = node.behaviour.version
    document = {
        "kubernetes": f"{major}.{minor}",
        "pods": [verdict_document(verdict) for verdict in verdicts],
        "sharedCPUs": str(node.shared_cpus),
        "zones": zone_documents(picture_after(node, verdicts)),
    }
    print_document(document, output)


def _draw(node: KubeletNode, verdicts: list[AdmissionVerdict], *, wide: bool, plain: bool) -> None:
    from numakube.cli.admit import admit_tables
    from numakube.cli.admit.admit_tables import picture_after
    from numakube.cli.shared.terminal import name_styles, print_drawing
    from numakube.insight.node_map.terminal_map import DEFAULT_WIDTH, zone_lines

    console = make_console()
    picture = picture_after(node, verdicts)
    console.print(admit_tables.verdict_table(verdicts, name_styles(picture, console), wide=wide))
    for line in admit_tables.refusals(verdicts):
        console.print(line)
    console.print()
    width = text_width(console, DEFAULT_WIDTH)
    print_drawing(console, zone_lines(picture, width=width, ascii_only=plain))
