"""The programs ``numakube`` and ``kubectl numa``, and how every command ends.

Exit codes: 0 yes; 1 no (a pod would be rejected, a check failed) or an error in what was given;
2 wrong usage; 3 the cluster cannot be reached; 130 interrupted. An error is one line on standard
error; ``--debug`` shows the traceback instead.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, NoReturn

import click

import numakube
from numakube.cli.extras import missing_text
from numakube.cli.lazy import Lazy, LazyGroup
from numakube.errors import ClusterUnreachable, NumakubeError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS: Final = {
    "admit": Lazy("numakube.cli.admit", "What would this node's kubelet do with these pods?"),
    "bundle": Lazy("numakube.cli.bundle", "Collect everything about a cluster into one file."),
    "dashboard": Lazy("numakube.cli.dashboard", "Serve pages that show a cluster by NUMA zone."),
    "cache": Lazy("numakube.cli.cache", "Show what schedulers believe of nodes."),
    "check": Lazy("numakube.cli.check", "Are NUMA annotations and labels in manifests right?"),
    "demo": Lazy(
        "numakube.cli.demo", "Show pods that fit, pods that do not, and who can tell them apart."
    ),
    "deploy": Lazy("numakube.cli.deploying.deploy", "Bring components onto a cluster."),
    "detect": Lazy(
        "numakube.cli.deploying.detect", "What kind of cluster is this, and what is on it?"
    ),
    "doctor": Lazy(
        "numakube.cli.doctor", "Check everything that NUMA placement rests on, and say what to do."
    ),
    "explain": Lazy("numakube.cli.explain", "Say why a pod is where it is, or nowhere."),
    "enforcer": Lazy("numakube.cli.enforcer", "Give containers what a scheduler allotted to them."),
    "exporter": Lazy(
        "numakube.cli.exporter", "Publish what this node's NUMA zones have and have left."
    ),
    "extender": Lazy("numakube.cli.extender", "Answer a stock kube-scheduler's calls."),
    "gc": Lazy(
        "numakube.cli.gc", "Remove NodeResourceTopology objects of nodes that have vanished."
    ),
    "images": Lazy("numakube.cli.deploying.images", "Which images does a deployment need?"),
    "lab": Lazy("numakube.cli.lab", "Run a cluster with NUMA nodes in one process."),
    "loglevel": Lazy(
        "numakube.cli.loglevel", "Show what schedulers log, or change it without a restart."
    ),
    "machine": Lazy("numakube.cli.machine", "Show a machine, or write it in another format."),
    "map": Lazy("numakube.cli.map", "Draw a node, and who has what of it."),
    "operator": Lazy(
        "numakube.cli.operator", "Run exporters and a scheduler as two objects ask for."
    ),
    "remove": Lazy("numakube.cli.deploying.remove", "Take components away again."),
    "render": Lazy("numakube.cli.deploying.render", "Print what would be deployed."),
    "queue": Lazy("numakube.cli.queue", "Show the pods that wait for a node."),
    "replay": Lazy("numakube.cli.replay", "Answer recorded cases and compare with the recording."),
    "reservations": Lazy(
        "numakube.cli.reservations", "Show what is held where, for which pod, and since when."
    ),
    "resync": Lazy("numakube.cli.resync", "Have schedulers read a node's report anew."),
    "scheduler": Lazy("numakube.cli.scheduler", "Schedule pods by NUMA topology."),
    "setup": Lazy("numakube.cli.deploying.setup", "Check the kubelets, then deploy."),
    "top": Lazy("numakube.cli.top", "How full are nodes and NUMA zones, what still fits?"),
    "validate": Lazy("numakube.cli.deploying.validate", "Are the kubelets set up to align pods?"),
    "sriov": Lazy("numakube.cli.sriov", "Offer PCI devices to this node's kubelet."),
    "trace": Lazy("numakube.cli.trace", "Show what happened to a pod."),
    "webhook": Lazy("numakube.cli.webhook", "Refuse pods whose NUMA annotations are wrong."),
    "completion": Lazy("numakube.cli.completion", "Print the completion script of a shell."),
}

NODE_AGENTS: Final = ("enforcer", "exporter", "sriov")
"""What runs on every node, where memory counts."""

OK: Final = 0
NEGATIVE: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
INTERRUPTED: Final = 130  # as shells report it: 128 and the number of SIGINT
BROKEN_PIPE: Final = 141  # 128 and the number of SIGPIPE


class _Program(LazyGroup):
    """The top of the command tree; click itself would end a closed pipe with 1, which means no."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; an interruption or a closed pipe ends it quietly."""
        try:
            result: object = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _forget_standard_output()
            ctx.exit(BROKEN_PIPE)
        except KeyboardInterrupt:
            click.echo(err=True)
            ctx.exit(INTERRUPTED)
        return result


@click.group(
    cls=_Program,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Documentation: docs/ in the source tree.",
)
@click.version_option(numakube.__version__, message="numakube %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(*, debug: bool) -> None:  # declared for the help; `run` takes it
    """NUMA-aware scheduling for Kubernetes, on one exact model of the kubelet."""


def main() -> NoReturn:
    """Run ``numakube``."""
    _silence_grpc()
    if sys.argv[1:2] and sys.argv[1] in NODE_AGENTS:
        _keep_rich_out()
    sys.exit(run(sys.argv[1:], program="numakube"))


def kubectl_main() -> NoReturn:
    """Run ``kubectl numa``, for which kubectl starts the program ``kubectl-numa``."""
    _silence_grpc()
    sys.exit(run(sys.argv[1:], program="kubectl numa"))


def _silence_grpc() -> None:
    """Keep the gRPC library's own lines out of the log, unless the user asks for them.

    Its core writes lines of another form straight to standard error (a kubelet that goes away is
    enough), where a reader of the log expects events only. It reads the variable when imported.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def _keep_rich_out() -> None:
    """Import structlog without rich, which it takes along for coloured tracebacks if it can.

    They are 3 MB on every node for an agent that never prints one.
    """
    # As the import system documents it: a name that cannot be imported.
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog
    finally:
        del sys.modules["rich"]
    del structlog


def complete_main() -> NoReturn:
    """Answer kubectl's request for completions of ``kubectl numa ...``."""
    from numakube.cli.completion import kubectl_candidates

    for line in kubectl_candidates(cli, sys.argv[1:]):
        print(line)
    sys.exit(OK)


def run(arguments: Sequence[str], *, program: str) -> int:
    """Run one command line and return the exit code; errors have been printed."""
    debug, words = _take_debug(arguments)
    try:
        code = cli.main(words, prog_name=program, standalone_mode=False)
    except click.exceptions.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        return _usage(error)
    except Exception as error:
        if debug:
            raise
        return _failed(_only(error), words)
    return code if isinstance(code, int) else OK


def _take_debug(arguments: Sequence[str]) -> tuple[bool, list[str]]:
    """Take ``--debug`` out of the command line: people add it at the end of what has failed."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    words = [word for word in arguments[:end] if word != "--debug"]
    return len(words) < end, [*words, *arguments[end:]]


def _only(error: Exception) -> Exception:
    """Return what a group of tasks failed with, if it is one thing."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        (error,) = error.exceptions
    return error


def _failed(error: Exception, words: Sequence[str]) -> int:
    if isinstance(error, ClusterUnreachable):
        _complain(str(error))
        return UNREACHABLE
    if isinstance(error, NumakubeError):
        _complain(str(error))
    elif isinstance(error, ModuleNotFoundError) and not _is_ours(error):
        command = next((word for word in words if word in COMMANDS), "numakube")
        _complain(missing_text(command, error.name or "a library"))
    elif isinstance(error, OSError) and error.filename is not None:
        _complain(f"{os.fspath(error.filename)}: {error.strerror}")
    else:
        _complain(
            f"unexpected {type(error).__name__}: {error}; this is a bug,"
            " `numakube --debug ...` shows where"
        )
    return NEGATIVE


def _is_ours(error: ModuleNotFoundError) -> bool:
    return (error.name or "").partition(".")[0] == "numakube"


def _usage(error: click.ClickException) -> int:
    _complain(error.format_message())
    context = getattr(error, "ctx", None)
    if context is not None:
        click.echo(f"see `{context.command_path} --help`", err=True)
    return error.exit_code


def _forget_standard_output() -> None:
    """Send what is still to be written nowhere, since its reader (such as ``head``) has gone."""
    # The interpreter flushes standard output at exit and would complain about it.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str) -> None:
    click.echo(f"error: {' '.join(message.splitlines())}", err=True)
