"""`python -m rpq.cli` is the command `rpq`."""

from rpq.cli.group import main

main(prog_name="rpq")
