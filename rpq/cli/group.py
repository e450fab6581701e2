"""The command group `rpq`: its own commands, and those that other packages bring along.

A command is found by its name, in this package or under the entry point group `rpq.commands` (name → a click
command), and imported when it is called.  For `rpq --help` all are imported for their one line of help; none of them
may import something heavy at its top.
"""

from __future__ import annotations

import logging
import warnings
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

import click

from rpq import __version__
from rpq.errors import ThreadsWarning

ENTRY_POINTS = "rpq.commands"
OWN = {"run": "rpq.cli.run:run", "explain": "rpq.cli.explain:explain", "warm-up": "rpq.cli.warm_up:warm_up"}


class CommandGroup(click.Group):
    """A group whose commands are loaded by name, as late as possible."""

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command; Ctrl-C ends it with 130 at any time, also while it is imported or kernels are compiled."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):
            ctx.exit(130)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*OWN, *sorted({*entry_points(group=ENTRY_POINTS).names} - {*OWN})]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in OWN:
            module, _, name = OWN[cmd_name].partition(":")
            return getattr(import_module(module), name)
        for found in entry_points(group=ENTRY_POINTS, name=cmd_name):
            try:
                return found.load()
            except ImportError as error:
                return _unavailable(cmd_name, error)
        return None


def _unavailable(name: str, error: ImportError) -> click.Command:
    """A command that stands for one whose package is not there: the others go on working."""

    @click.command(name, help=f"(not available: {error})", context_settings={"ignore_unknown_options": True})
    @click.argument("arguments", nargs=-1)
    def command(arguments: tuple[str, ...]) -> None:
        raise click.ClickException(f"the command {name} is not available: {error}")

    return command


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"rpq {__version__}")
        ctx.exit()


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version and exit."
)
def main(**_: Any) -> None:
    """Persistent regular path queries over streaming graphs."""
    # A command tells in its own way that it is compiling; without a handler Python would print what the engine logs.
    logging.getLogger("rpq").addHandler(logging.NullHandler())
    # So it does of threads that divide nothing.
    warnings.simplefilter("ignore", ThreadsWarning)
