"""Runs the command line: `python -m transduce` is `transduce`."""

from transduce.commands import main

if __name__ == "__main__":
    main()
