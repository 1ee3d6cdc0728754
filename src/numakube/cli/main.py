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

from numakube.annexes import annexes
from numakube.cli.command_table import (
    COMMANDS,
    GROUPS,
    first_words,
    joined,
    joined_first_words,
    other_names,
    path_in,
    program_called,
    renamed,
    sections,
)
from numakube.cli.examples import examples_text
from numakube.cli.lazy_commands import LazyGroup
from numakube.cli.shared.connection_options import connection_options, give_to_program
from numakube.errors import ClusterUnreachable, NumakubeError
from numakube.programs import PROGRAMS
from numakube.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence


OK: Final = 0
NEGATIVE: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
INTERRUPTED: Final = 130  # as shells report it: 128 and the number of SIGINT
BROKEN_PIPE: Final = 141  # 128 and the number of SIGPIPE

OPTIONAL: Final = ("cryptography", "distributed", "google", "grpc", "h2", "matplotlib")
"""Libraries, as they are imported, that only extras bring."""

EXTRAS: Final = {entry.path: entry.extra for entry in PROGRAMS.values() if entry.extra}
"""Commands of ours that need them, and the extra that has all that each needs."""


class _Program(LazyGroup):
    """The top of the command tree; click itself would end a closed pipe with 1, which means no."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command by its name in the list, or by another one."""
        other = None if cmd_name in GROUPS else renamed(cmd_name)
        if other is None and " " in cmd_name:
            command = joined()[cmd_name].load()
            program = ctx.find_root().info_name or "numakube"
            command.epilog = examples_text(cmd_name, program)
            return command
        if other is None:
            return super().get_command(ctx, cmd_name)
        first, _, own = other.path.partition(" ")
        group = super().get_command(ctx, first)
        return group.get_command(ctx, own) if isinstance(group, click.Group) else group

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that *args* begin with, whose name may be an older one."""
        noun = " ".join(args[:2])
        if len(args) > 1 and args[0] not in GROUPS and noun in joined():
            # An annex has added a noun to a command of ours: ``top domains``.
            return noun, self.get_command(ctx, noun), args[2:]
        other = renamed(args[0]) if args and not _is_group(args) else None
        if other is not None:
            if other.told and not ctx.resilient_parsing:
                program = ctx.find_root().info_name
                click.echo(
                    f"note: `{program} {args[0]}` is `{program} {other.path}` now;"
                    " the older name goes with version 2.0",
                    err=True,
                )
            args = [*other.path.split(), *args[1:]]
        return super().resolve_command(ctx, args)

    def alternatives(self) -> dict[str, str]:
        """Return older names too."""
        return {name: other.path for name, other in other_names().items()}

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
    lazy=first_words(),
    joined=joined_first_words,
    sections=sections,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`help COMMAND` explains a command and shows examples, `help topic` what they have in"
    " common. `help topic cluster` has --kubeconfig, --context and what else all of them take.",
)
@click.version_option(VERSION, message="numakube %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@connection_options()
@click.pass_context
def cli(ctx: click.Context, *, debug: bool) -> None:  # declared for the help; `run` takes it
    """NUMA-aware scheduling for Kubernetes, on one exact model of the kubelet."""
    if program_called([ctx.invoked_subcommand or ""]) is not None:
        give_to_program(ctx)


def main() -> NoReturn:
    """Run ``numakube``."""
    _silence_grpc()
    entry = program_called(sys.argv[1:])
    if entry is not None and entry.on_every_node:
        _keep_rich_out()
        _keep_trust_store_out()
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


def _keep_trust_store_out() -> None:
    """Import aiohttp without the certificates of the system, which it reads at once.

    It has them for requests that bring no context of their own; ours do
    (`numakube.kube.connection.credentials`). They are 2 MB on every node.
    """
    before = dict(os.environ)
    os.environ.update(dict.fromkeys(("SSL_CERT_FILE", "SSL_CERT_DIR"), os.devnull))
    try:
        import aiohttp
    finally:
        os.environ.clear()
        os.environ.update(before)
    del aiohttp


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
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help())
        return OK
    except click.ClickException as error:
        return _usage(error)
    except Exception as error:
        if debug:
            raise
        return _failed(_only(error), words)
    return code if isinstance(code, int) else OK


def _is_group(words: Sequence[str]) -> bool:
    """Tell whether *words* begin with a group of commands, not with a command called like it once.

    ``check FILE`` is what ``check manifests FILE`` was called; a file may be called as a command.
    """
    if words[0] not in GROUPS or len(words) == 1:
        return words[0] in GROUPS
    word = words[1]
    if word in ("-h", "--help") or not (word.startswith("-") or os.path.exists(word)):  # noqa: PTH110
        return True
    return f"{words[0]} {word}" in {**COMMANDS, **joined()} or renamed(words[0]) is None


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
        _complain(missing_text(path_in(words) or "numakube", error.name or "a library"))
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
    from numakube.values.safe_text import printable, without_secrets

    text = without_secrets(" ".join(map(str.strip, message.splitlines())))
    click.echo(f"error: {printable(text)}", err=True)


def missing_text(command: str, module: str) -> str:
    """Return what is missing for *command*, and how it is installed."""
    name = module.partition(".")[0]
    extra = next((annex.extra_of(command) for annex in annexes() if annex.package == name), "")
    if name in OPTIONAL:
        extra = extra_of(command) or "all"
    package = f"'numakube[{extra}]'" if extra else "numakube"
    return f"{command} needs {name}, which is not installed: pip install {package}"


def extra_of(command: str) -> str:
    """Return the extra that has all that *command* needs; empty if it needs none."""
    if command in COMMANDS:
        return EXTRAS.get(command, "")
    return next((annex.extra_of(command) for annex in annexes() if command in annex.called()), "")
