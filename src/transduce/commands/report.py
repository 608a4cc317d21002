"""`transduce report`: writes a page about one or more models."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.commands.console import say
from transduce.commands.input_checks import check_models
from transduce.commands.options import DeviceOption, OverwriteOption, ThreadsOption
from transduce.commands.output_file import check_writable, write_output

if TYPE_CHECKING:
    from transduce.corpus.corpus_kinds import CorpusSpec


def report(
    run: Annotated[list[Path], typer.Argument(help="Model directories; the others are compared with the first.")],
    out: Annotated[
        list[Path],
        typer.Option(
            help="Self-contained HTML page to write, or Markdown tables if the name ends in .md; may be repeated."
        ),
    ],
    test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Test set in the recipe of the first model, or `validation`; may be repeated."
        ),
    ] = None,
    bootstrap: Annotated[
        int, typer.Option(min=2, help="Number of bootstrap resamples for confidence intervals and paired tests.")
    ] = 1000,
    overwrite: OverwriteOption = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
) -> None:
    """Writes a page about models: their training, scores, lengths, sentences, attention and settings."""
    for path in out:
        check_writable(path, overwrite=overwrite)
    check_models(run)
    from transduce.pages.report_page import measure_runs, report_page, report_text
    from transduce.runtime.device import set_up_device

    measured = measure_runs(run, _test_sets(run[0], test), str(set_up_device(device, threads)), bootstrap)
    for path in out:
        write_output(report_text(measured) if path.suffix == ".md" else report_page(measured), path)
        say(str(path))


def _test_sets(run: Path, names: list[str] | None) -> "dict[str, CorpusSpec]":
    """Returns the test sets called `names` or, without names, all test sets in the run's recipe whose files exist.

    Without names, prints a note if the run has no recipe, or if test sets are left out because files are missing.
    """
    from transduce.corpus.corpus_kinds import files_of
    from transduce.model_directory.manifest import RECIPE
    from transduce.recipe.corpora_of_run import named_test_set, test_sets_of

    if names:
        return {name: named_test_set(run, name) for name in names}
    if not (run / RECIPE).exists():
        say(f"no test set is measured: {run} has no {RECIPE}, which names test sets; name a run with one first")
        return {}
    sets = test_sets_of(run)
    readable = {name: spec for name, spec in sets.items() if all(path.exists() for path in files_of(spec))}
    if missing := [name for name in sets if name not in readable]:
        say(f"left out, because files are missing: {', '.join(missing)}")
    return readable
