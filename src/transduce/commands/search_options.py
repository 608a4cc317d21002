"""The search that options of the command line choose."""

from typing import TYPE_CHECKING, Any, Unpack

from transduce.commands.options import refuse_options

if TYPE_CHECKING:
    from transduce.search import Decoding
    from transduce.translation.search_method import SearchMethod, SearchOptions

__all__ = ["search_method_of_options"]

BEAM_OPTIONS = ("--beam", "--length-penalty", "--margin")
SAMPLE_OPTIONS = ("--temperature", "--top-k", "--top-p", "--seed")


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
