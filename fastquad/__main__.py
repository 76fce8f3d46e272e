"""`python -m fastquad` is the command `fastquad`."""

from fastquad.cli import main

if __name__ == "__main__":
    main(prog_name="fastquad")
