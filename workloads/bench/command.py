"""`rpq bench NAME`: run an experiment, show its table, keep its figures."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from workloads.bench.experiment import Experiment

EXPERIMENTS = {
    "mathoverflow": ("workloads.bench.mathoverflow", "Speed on the MathOverflow stream, beside other engines'."),
    "ldbc": ("workloads.bench.ldbc", "Speed on LDBC's updates, beside other engines'."),
}
"""Name → module with an `EXPERIMENT`, and a line of help."""


class BenchGroup(click.Group):
    """Experiments are commands, imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*EXPERIMENTS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in EXPERIMENTS:
            return None
        return _command(cmd_name)


@click.group("bench", cls=BenchGroup, short_help="Repeat the experiments and measure this machine.")
def bench() -> None:
    """Repeat the paper's experiments, and measure the engine on this machine.

    Each experiment prints a table and writes NAME.json (with machine, versions, seeds, calibration and commit) and
    NAME.png. Without --data it runs on generated streams.
    """


def load(name: str) -> Experiment:
    """An experiment by name."""
    experiment: Experiment = import_module(EXPERIMENTS[name][0]).EXPERIMENT
    return experiment


def _command(name: str) -> click.Command:
    options: list[click.Parameter] = [
        click.Option(["--data"], type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR",
                     help="Where real data sets are: stackoverflow/, ldbc/, yago/, gmark/, or their files directly."),
        click.Option(["--scale"], type=click.FloatRange(0, 100, min_open=True), default=1.0, show_default=True,
                     help="The part of each stream to use; generated ones can be longer than once."),
        click.Option(["--edges"], type=click.IntRange(min=100), default=1_000_000, show_default=True,
                     help="Edges of a generated stream at scale 1."),
        click.Option(["--queries"], metavar="Q1,Q2", default="", help="Only these queries."),
        click.Option(["--repeat"], type=click.IntRange(min=1), default=5, show_default=True,
                     help="Runs of which the median counts."),
        click.Option(["--sample"], type=click.IntRange(min=1), default=200, show_default=True,
                     help="Tuples pushed one at a time, where that is measured."),
        click.Option(["--seconds"], type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True,
                     help="What a baseline may take for a query."),
        click.Option(["--seed"], type=int, default=1, show_default=True, help="Of generated streams and samples."),
        click.Option(["--cold", "is_cold"], is_flag=True, help="Measure a start without compiled kernels, too."),
        click.Option(["--output"], type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
                     help="Where results go.  [default: workloads/results of a checkout, or results]"),
    ]  # fmt: skip
    return click.Command(name, params=options, callback=lambda **values: _run(name, values), short_help=EXPERIMENTS[name][1],
                         help=EXPERIMENTS[name][1])  # fmt: skip


def _run(name: str, values: dict[str, Any]) -> None:
    from rich.console import Console

    from workloads.bench.experiment import Settings
    from workloads.bench.measure import RowsDifferError
    from workloads.bench.results import default_directory
    from workloads.bench.streams import StreamError
    from workloads.queries import UnknownQueryError

    values["output"] = values["output"] or default_directory()
    values["queries"] = tuple(filter(None, values["queries"].replace(" ", "").split(",")))
    experiment = load(name)
    try:
        result = experiment.run(Settings(**values), lambda text: click.echo(text, err=True))
    except (StreamError, RowsDifferError, UnknownQueryError) as error:
        raise click.ClickException(str(error)) from error
    console = Console()
    if not console.is_terminal:
        console = Console(width=400)
    console.print(experiment.table(result))
    machine = result["machine"]
    console.print(
        f"{machine['cpu']}, {machine['cores']} cores, load {machine['load_average']}; Python {machine['python']}, "
        f"numba {machine['numba']}, commit {machine['commit']}; calibration {machine['calibration_ns_per_step']} ns a step",
        highlight=False,
    )
    for key, value in result["facts"].items():
        console.print(f"{key}: {value}", highlight=False)
    broken = [check for check, holds in result["checks"].items() if not holds]
    if broken:
        raise click.ClickException("what must hold does not: " + "; ".join(broken))
