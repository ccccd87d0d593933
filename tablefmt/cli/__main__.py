"""`python -m tablefmt.cli` is the command `tablefmt`."""

from tablefmt.cli.main import main

main(prog_name="tablefmt")
