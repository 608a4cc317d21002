"""Options that several commands share, and the checks of options."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer

if TYPE_CHECKING:
    from transduce.search.beam import Decoding
    from transduce.translation.search_method import SearchMethod, SearchOptions

BEAM_OPTIONS = ("--beam", "--length-penalty", "--margin")
SAMPLE_OPTIONS = ("--temperature", "--top-k", "--top-p", "--seed")


class PrecisionName(StrEnum):
    """The precision of matrix products while translating."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"


class Engine(StrEnum):
    """What translates: this process shard by shard, the actors of Ray, or CTranslate2."""

    LOCAL = "local"
    RAY = "ray"
    CTRANSLATE2 = "ctranslate2"

    @property
    def is_bulk(self) -> bool:
        """Whether a file or a folder is translated shard by shard."""
        return self is not Engine.CTRANSLATE2


DeviceOption = Annotated[str, typer.Option(help="auto, cpu or cuda, or a certain GPU, such as cuda:1.")]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="Threads on the CPU; one a core if not given.")]
PrecisionOption = Annotated[PrecisionName, typer.Option(help="Of products: int8 is fast on a CPU, bfloat16 on a GPU.")]
BeamOption = Annotated[int | None, typer.Option(min=1, help="Width of the beam; the model's own if not given.")]
LengthPenaltyOption = Annotated[float | None, typer.Option(min=0, help="α of the length penalty.")]
NoRepeatNgramOption = Annotated[
    int | None, typer.Option(min=0, help="No n-gram of N tokens stands twice in a translation; 0: no ban.")
]
GreedyOption = Annotated[bool, typer.Option(help="Take the most probable token at each step.")]
SampleOption = Annotated[bool, typer.Option(help="Draw tokens from the model's distribution.")]
TemperatureOption = Annotated[float | None, typer.Option(help="Of --sample, 1 if not given; lower is sharper.")]
TopKOption = Annotated[int | None, typer.Option(min=1, help="Draw from the k most probable tokens.")]
TopPOption = Annotated[float | None, typer.Option(help="Draw from the most probable tokens of this mass.")]
SeedOption = Annotated[int | None, typer.Option(min=0, max=2**63 - 1, help="Of --sample, 1 if not given.")]
BatchTokensOption = Annotated[int | None, typer.Option(min=1, help="Most source positions translated at once.")]
MarginOption = Annotated[
    float | None,
    typer.Option(
        help="Drop hypotheses more than this many nats behind the best (with --n-best N the N-th best): faster, may "
        "change the result. inf switches it off."
    ),
]
ToOption = Annotated[
    str | None, typer.Option("--to", help="Target language, such as de; needed where the model has several.")
]
FromOption = Annotated[
    str | None, typer.Option("--from", help="Source language, such as en; refused where the model does not know it.")
]
TagOption = Annotated[str | None, typer.Option(help="Kind of text: one of the tags that the model was trained with.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace output files that exist.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def complete_key(incomplete: str) -> list[str]:
    """Returns the keys of a recipe that begin with `incomplete`, each followed by `=`, for the shell.

    A single key is returned a second time, with `VALUE`: bash adds a space after a single completion.
    """
    from transduce.recipe.recipe import Recipe
    from transduce.settings import key_paths

    replaced_whole = ("data.train.", "data.validation.", "data.test.")
    keys = [key for key in key_paths(Recipe) if key.startswith(incomplete) and not key.startswith(replaced_whole)]
    return [f"{keys[0]}=", f"{keys[0]}=VALUE"] if len(keys) == 1 else [f"{key}=" for key in keys]


SetOption = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the recipe.", autocompletion=complete_key),
]


def refuse_options(options: Mapping[str, Any], reason: str) -> None:
    """Raises ValueError with `reason` for the first option whose value is not None."""
    for name, value in options.items():
        if value is not None:
            shown = " ".join(map(str, value)) if isinstance(value, list) else value
            raise ValueError(f"{name} {shown}: it {reason}; leave it out")


def search_method_of_options(decoding: "Decoding", n_best: int, **options: "Unpack[SearchOptions]") -> "SearchMethod":
    """Returns the search of the options; its errors name the options of the command line."""
    from transduce.translation.search_method import search_method

    greedy, sample, beam = options.get("greedy"), options.get("sample"), options.get("beam") or decoding.beam
    flags: dict[str, Any] = {f"--{name.replace('_', '-')}": value for name, value in options.items()}
    if greedy or sample:
        refuse_options({name: flags.get(name) for name in BEAM_OPTIONS}, "is for a beam search")
    if not sample:
        refuse_options({name: flags.get(name) for name in SAMPLE_OPTIONS}, "is for --sample")
    if greedy and sample:
        raise ValueError("--greedy and --sample exclude each other: choose one")
    if n_best > 1 and (greedy or sample):
        raise ValueError(f"--n-best {n_best}: only a beam has several translations; leave --greedy and --sample out")
    if n_best > beam:
        raise ValueError(f"--n-best {n_best}: a beam of {beam} gives at most as many; use --beam {n_best}")
    return search_method(decoding, n_best, **options)
