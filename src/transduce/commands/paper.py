"""`transduce paper`."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Experiment(StrEnum):
    """What of the paper is reproduced."""

    TABLE1 = "table1"


def paper(
    experiment: Annotated[Experiment, typer.Argument(help="Which table or argument.")],
    out: Annotated[Path, typer.Option(help="Where tables and plots are written.")] = Path("docs/results"),
    repeats: Annotated[int, typer.Option(min=1, help="How often each time is taken.")] = 5,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads that compute.")] = None,
) -> None:
    """Reproduces a table of the paper, what it states beside what is found."""
    from transduce.machine import choose_device, keep_pages, use_threads
    from transduce.paper import printed, table1

    use_threads(threads)
    keep_pages()
    chosen = choose_device(device)
    rows = table1.table1(chosen, repeats, lambda line: print(line, file=sys.stderr))
    found = table1.claims(chosen, repeats)
    out.mkdir(parents=True, exist_ok=True)
    text = printed.table1(rows, found)
    (out / "table1.md").write_text(text + "\n", "utf-8")
    (out / "table1.json").write_text(json.dumps(table1.as_dictionary(rows, found), indent=1), "utf-8")
    printed.draw_table1(rows, out / "table1.svg")
    print(text)
