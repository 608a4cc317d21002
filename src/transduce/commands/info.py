"""`transduce info`: shows the size and the settings of a model, changes how it decodes, and verifies its files."""

from pathlib import Path
from typing import Annotated

import typer

from transduce.commands.console import aligned_table, say
from transduce.commands.options import JsonOption, complete_key
from transduce.runtime.json_text import json_text


def complete_decoding_key(incomplete: str) -> list[str]:
    """Returns the keys of `decoding` that begin with `incomplete`, for shell completion."""
    return [key for key in complete_key(incomplete) if key.startswith("decoding.")]


def info(
    model: Annotated[
        str, typer.Argument(metavar="PRESET|RECIPE|RUN", help="Name of a preset, a recipe file or a run directory.")
    ],
    vocabulary: Annotated[
        int | None,
        typer.Option(
            min=4, max=10**9, help="Number of subwords per side (default: the model's, or 37,000 for a preset)."
        ),
    ] = None,
    change: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a decoding setting of a run, such as decoding.beam=5, without retraining; may be repeated.",
            autocompletion=complete_decoding_key,
        ),
    ] = [],  # noqa: B006
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Only verify the checksums of a run's files, which reveal damage but not forgery."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Shows the number of parameters, the computational cost per token and the settings of a model."""
    from transduce.recipe.model_summary import summarise_model

    if verify:
        verify_files(Path(model))
        print(f"{model}: every file matches its checksum")
        return
    if change:
        change_settings(Path(model), change)
    summary = summarise_model(model, vocabulary)
    if as_json:
        print(json_text(summary, indent=2))
        return
    source, target = summary["vocabulary"]["source"], summary["vocabulary"]["target"]
    subwords = f"{target:,} subwords" if source == target else f"{source:,} source and {target:,} target subwords"
    parts = [(part, f"{count:,}") for part, count in summary["parameters_by_part"].items()]
    arithmetic = f"{summary['flops_per_target_token'] / 1e6:,.1f} MFLOP for one source token and one target token"
    rows = [(f"parameters at {subwords}", f"{summary['parameters']:,}")]
    print(aligned_table([*rows, *((f"  {part}", count) for part, count in parts), ("arithmetic", arithmetic)]))
    print()
    decoding = ((f"decoding.{key}", json_text(value)) for key, value in summary["decoding"].items())
    print(
        aligned_table([("setting", "value"), *((key, str(value)) for key, value in summary["spec"].items()), *decoding])
    )


def change_settings(run: Path, changes: list[str]) -> None:
    """Changes the decoding settings of a run; prints a note if its confidence was calibrated with the old settings."""
    from transduce.model_directory.manifest import fingerprint
    from transduce.recipe.decoding import change_decoding
    from transduce.translation.confidence import CONFIDENCE

    before = fingerprint(run)
    change_decoding(run, changes)
    if fingerprint(run) != before and (run / CONFIDENCE).exists():
        say(f"note: {run / CONFIDENCE} is of the earlier settings: make it again with `transduce calibrate {run}`")


def verify_files(run: Path) -> None:
    """Compares the files of a model directory, its checkpoints and its token store with their checksums.

    Raises ValueError if a file has changed or is missing. The checksums reveal damage but not forgery, because they are
    stored next to the files, and whoever replaces a file can replace its checksum as well. The model card, the metrics
    log and unfinished work have no checksums. This function does not check whether the weights are finite, because that
    is checked whenever they are read; `transduce evaluate` shows whether they translate well.
    """
    from transduce.corpus.store.preparation import verify_store
    from transduce.model_directory.manifest import verify
    from transduce.run.checkpoints import Checkpoints

    checkpoints, faults = Checkpoints(run / "training"), verify(run)
    for step in checkpoints.steps():
        damage = checkpoints.find_damage(step)
        if step in checkpoints.steps():  # otherwise an active run has removed the checkpoint
            faults += [f"checkpoint {step}: {fault}" for fault in damage]
    faults += [f"prepared corpus: {fault}" for fault in verify_store(run / "training" / "store")]
    if faults:
        raise ValueError("\n  ".join([f"{run} is damaged:", *faults]))
