"""The command group `rpq`: its own commands, and those that other packages bring along.

A command is found by its name, in this package or under the entry point group `rpq.commands` (name → a click
command), and imported when it is called.  For `rpq --help` all are imported for their one line of help; none of them
may import something heavy at its top.
"""

from __future__ import annotations

import logging
import os
import re
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


_NEGATIVE_NUMBER = re.compile(r"-\d+(\.\d+)?")


class SeveralValuesCommand(click.Command):
    """A command whose options with `multiple=True` take values repeated and in a row.

    `instead_of_argument` are the options that take the place of its argument.
    """

    instead_of_argument = frozenset({"--query", "--query-file", "--queries"})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        has_argument = any(name.partition("=")[0] in self.instead_of_argument for name in args)
        names = self._names(several=True), self._names(several=False)
        return super().parse_args(ctx, spread(args, *names, has_argument=has_argument))

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the argument first, as the one order that is never ambiguous."""
        arguments = [
            piece for param in self.params if isinstance(param, click.Argument) for piece in param.get_usage_pieces(ctx)
        ]
        formatter.write_usage(ctx.command_path, " ".join([*arguments, self.options_metavar or ""]))

    def _names(self, *, several: bool) -> set[str]:
        """The option names that take several values, or those that take exactly one."""
        return {
            name
            for param in self.params
            if isinstance(param, click.Option) and not param.is_flag and not param.count and param.multiple is several
            for name in (*param.opts, *param.secondary_opts)
        }


def spread(args: list[str], several: set[str], single: set[str], *, has_argument: bool = False) -> list[str]:
    """Rewrite arguments so that each option has one value; `several` and `single` are the options that have values.

    With `has_argument` no value is taken for the argument.

    >>> spread(["a/b", "--input", "x", "y", "--window", "-3"], {"--input"}, {"--window"})
    ['a/b', '--input=x', '--input=y', '--window', '-3']
    >>> spread(["--source", "-1", "2", "--", "a/b"], {"--source"}, set())
    ['--source=-1', '--source=2', '--', 'a/b']
    >>> spread(["--input", "x", "y", "a/b"], {"--input"}, set())
    ['--input=x', '--input=y', 'a/b']
    """
    out: list[str] = []
    last_row: tuple[int, int] = (0, 0)  # where the row of values that ends the command line stands in `out`
    position = 0
    while position < len(args):
        arg = args[position]
        position += 1
        if arg == "--":
            has_argument = has_argument or position < len(args)
            return [*out, arg, *args[position:]]
        name, equals, _ = arg.partition("=")
        if name in several:
            first = len(out)
            if equals:
                out.append(arg)
            while position < len(args) and not _is_option(args[position]):
                out.append(f"{name}={args[position]}")
                position += 1
            if len(out) == first:
                raise click.BadOptionUsage(name, f"Option {name!r} requires a value.")
            last_row = (first, len(out))
            continue
        out.append(arg)
        if arg in single and position < len(args):
            out.append(args[position])
            position += 1
        elif not _is_option(arg):
            has_argument = True
    first, end = last_row
    if not has_argument and end == len(out) and end - first >= 2:
        value = out[-1].partition("=")[2]
        if not os.path.exists(value) and not os.path.exists(value.partition("=")[2]):
            out[-1] = value
    return out


def _is_option(arg: str) -> bool:
    return arg.startswith("-") and arg != "-" and not _NEGATIVE_NUMBER.fullmatch(arg)
