"""Options that take several values in a row: `--input a b --source x y`, repeated as well.

click reads one value an option.  `SeveralValuesCommand` rewrites the arguments before click sees them, so that
`--input a b` becomes `--input=a --input=b`, by three rules:

* After an option declared with `multiple=True`, every argument up to the next option or `--` is a value of it.  An
  argument is an option if it starts with `-` and is neither `-` alone (standard input) nor a negative number.
* What follows `--` are arguments, never options or values.
* If that leaves no argument at all and the command line ends in a row of at least two values, the last of them is
  the argument: in `rpq run --window 10 --input a b 'x/y'` it is the expression.  It is no argument if a file of that
  name exists, or of the name behind a `=` in it.
"""

from __future__ import annotations

import os
import re

import click

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
