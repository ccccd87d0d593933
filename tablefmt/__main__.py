"""`python -m tablefmt` is the command `tablefmt`."""

from tablefmt.cli.main import main

if __name__ == "__main__":
    main(prog_name="tablefmt")
