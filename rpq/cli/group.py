"""The command group `rpq`: its built-in commands, the commands of other packages, and the parsing of their arguments.

A command is looked up by its name, in this package or in the entry point group `rpq.commands` (name → a click command),
and imported when it is called.  `rpq --help` imports all of them for their one line of help, so none of their modules may
import a heavy package at module level.
"""

from __future__ import annotations

import logging
import os
import re
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoints, entry_points
from typing import Any

import click

from rpq import __version__
from rpq.cli.options import Assignments

ENTRY_POINTS = "rpq.commands"
BUILT_IN = {"run": "rpq.cli.run:run", "explain": "rpq.cli.explain:explain", "warm-up": "rpq.cli.warm_up:warm_up"}


class CommandGroup(click.Group):
    """A group that imports a command when it is called by its name."""

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command; Ctrl-C ends it with status 130, also during imports and the compilation of kernels."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):
            ctx.exit(130)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*BUILT_IN, *sorted({*_commands_of_packages().names} - {*BUILT_IN})]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in BUILT_IN:
            module, _, name = BUILT_IN[cmd_name].partition(":")
            return getattr(import_module(module), name)
        for found in _commands_of_packages().select(name=cmd_name):
            try:
                return found.load()
            except ImportError as error:
                return _unavailable(cmd_name, error)
        return None


@cache  # Python reads a file of each installed distribution
def _commands_of_packages() -> EntryPoints:
    """Return the entry points of commands of this package and others."""
    return entry_points(group=ENTRY_POINTS)


def _unavailable(name: str, error: ImportError) -> click.Command:
    """Return a placeholder for a command whose package is not installed, so that the other commands work."""
    reason = "it runs from a checkout" if (error.name or "").startswith("rpq.") else str(error)

    @click.command(name, help=f"(not available: {reason})", context_settings={"ignore_unknown_options": True})
    @click.argument("arguments", nargs=-1)
    def command(arguments: tuple[str, ...]) -> None:
        raise click.ClickException(f"the command {name} is not available: {reason}")

    return command


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"rpq {__version__}")
        ctx.exit()


@click.group(
    cls=CommandGroup,
    help="Persistent regular path queries over streaming graphs.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version and exit."
)
def main(**_: Any) -> None:
    """Configure logging, then call the command."""
    # Commands report compilation in their own way; without a handler Python would print what the engine logs.
    logging.getLogger("rpq").addHandler(logging.NullHandler())


_NEGATIVE_NUMBER = re.compile(r"-\d+(\.\d+)?")


class SeveralValuesCommand(click.Command):
    """A command whose options with `multiple=True` take several values in a row: `--input a b --source x y`.

    click reads one value for each option, so the arguments are rewritten before click parses them: `--input a b` becomes
    `--input=a --input=b`.  There are three rules:

    * After an option declared with `multiple=True`, every argument up to the next option or `--` is one of its values.  An
      argument is an option if it starts with `-` and is neither `-` alone (standard input) nor a negative number.
    * Everything after `--` is an argument, never an option or a value.
    * If this leaves no argument at all, and the command line ends in at least two values in a row, then the last of them is
      the argument: in `rpq run --window 10 --input a b 'x/y'` it is the expression.  It stays a value if a file of this
      name, or of the part of the name after a `=`, exists.

    `instead_of_argument` are the options that replace the command's argument.
    """

    instead_of_argument = frozenset({"--query", "--query-file", "--queries"})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        has_argument = any(name.partition("=")[0] in self.instead_of_argument for name in args)
        names = self._names(multi_value=True), self._names(multi_value=False)
        return super().parse_args(ctx, expand_values(args, *names, has_argument=has_argument))

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the argument first: only this order is never ambiguous."""
        arguments = [
            piece for param in self.params if isinstance(param, click.Argument) for piece in param.get_usage_pieces(ctx)
        ]
        formatter.write_usage(ctx.command_path, " ".join([*arguments, self.options_metavar or ""]))

    def _names(self, *, multi_value: bool) -> set[str]:
        """Return the names of the options that take several values, or of those that take exactly one."""
        return {
            name
            for param in self.params
            if isinstance(param, click.Option) and not param.is_flag and not param.count
            if (param.multiple and not isinstance(param, Assignments)) is multi_value
            for name in (*param.opts, *param.secondary_opts)
        }


def expand_values(args: list[str], multi_value: set[str], single: set[str], *, has_argument: bool = False) -> list[str]:
    """Rewrite arguments so that each option has one value; `multi_value` and `single` are the options that have values.

    With `has_argument` no value is taken for the argument.

    >>> expand_values(["a/b", "--input", "x", "y", "--window", "-3"], {"--input"}, {"--window"})
    ['a/b', '--input=x', '--input=y', '--window', '-3']
    >>> expand_values(["--source", "-1", "2", "--", "a/b"], {"--source"}, set())
    ['--source=-1', '--source=2', '--', 'a/b']
    >>> expand_values(["--input", "x", "y", "a/b"], {"--input"}, set())
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
        if name in multi_value:
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
