"""Run the command `tablefmt` as `python -m tablefmt`."""

from tablefmt.cli.main import main

if __name__ == "__main__":
    main(prog_name="tablefmt")
