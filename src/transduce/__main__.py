"""Runs the command-line interface, so that `python -m transduce` does the same as `transduce`."""

from transduce.commands import main

if __name__ == "__main__":
    main()
