"""`transduce info`: shows the shape, the parameters and the arithmetic of a model."""

from typing import Annotated

import typer

from transduce.commands.console import aligned_table
from transduce.commands.options import JsonOption
from transduce.runtime.json_text import json_text


def info(
    model: Annotated[str, typer.Argument(metavar="PRESET|RECIPE|RUN", help="A preset's name, a recipe, or a run.")],
    vocabulary: Annotated[
        int | None, typer.Option(min=4, max=10**9, help="Subwords a side; else the model's own, a preset's 37,000.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Shows the shape, the parameters and the arithmetic of a model."""
    from transduce.recipe.model_summary import summarise_model

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
    print(aligned_table([("setting", "value"), *((key, str(value)) for key, value in summary["spec"].items())]))
