"""`transduce info`."""

import json
from typing import Annotated

import typer


def info(
    what: Annotated[str, typer.Argument(metavar="PRESET|RECIPE|RUN", help="A preset's name, a recipe, or a run.")],
    vocabulary: Annotated[
        int | None, typer.Option(min=4, max=10**9, help="Subwords a side; else its own, a preset's 37,000.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Shows the shape, the parameters and the arithmetic of a model."""
    from transduce.recipe.model_summary import described

    found = described(what, vocabulary)
    if as_json:
        print(json.dumps(found, indent=2))
        return
    print(f"{found['parameters']:,} parameters at {found['vocabulary']['target']:,} subwords")
    for part, count in found["parameters_by_part"].items():
        print(f"  {part:18} {count:>12,}")
    print(f"{found['flops_per_target_token'] / 1e6:,.1f} MFLOP to read one source word and write one target word")
    for key, value in found["spec"].items():
        print(f"  {key:18} {value}")
