"""Mixes several translation directions: computes how many times an epoch uses the pairs of each corpus."""

from collections.abc import Sequence

from transduce.corpus.corpus_kinds import MAX_WEIGHT
from transduce.corpus.data_spec import DataSpec
from transduce.corpus.store.token_store import CorpusPart
from transduce.text.directions import Direction


def with_temperature(
    parts: Sequence[CorpusPart], directions: Sequence[Direction], temperature: float | None
) -> tuple[CorpusPart, ...]:
    """Reweights the parts so that the share of each direction in an epoch is proportional to n^(1/temperature).

    Here, n is the number of pairs, counting repetitions, that an epoch would use from the direction if only the weights
    of its corpora counted. The weights of corpora in the same direction keep their ratios, and the total number of
    pairs in an epoch stays the same (Arivazhagan et al. 2019, section 3.2). If `temperature` is None, the weights do
    not change.
    """
    if temperature is None:
        return tuple(parts)
    uses = _uses(parts, directions)
    powers = {direction: n ** (1.0 / temperature) for direction, n in uses.items() if n}
    factors = {
        direction: power / sum(powers.values()) * sum(uses.values()) / uses[direction]
        for direction, power in powers.items()
    }
    return tuple(
        part._replace(weight=min(part.weight * factors.get(direction, 1.0), MAX_WEIGHT))
        for part, direction in zip(parts, directions, strict=True)
    )


def pairs_of_directions(parts: Sequence[CorpusPart], directions: Sequence[Direction]) -> dict[Direction, int]:
    """Returns the number of pairs in each direction, not counting repetitions."""
    pairs = dict.fromkeys(directions, 0)
    for part, direction in zip(parts, directions, strict=True):
        pairs[direction] += part.pairs
    return pairs


def describe_mixture(parts: Sequence[CorpusPart], data: DataSpec) -> list[str]:
    """Returns a line for each direction, with its number of pairs and its share of an epoch.

    The list is empty if there is only one direction.
    """
    if len(data.directions) == 1:
        return []
    directions = [data.direction_of(corpus) for corpus in data.train]
    pairs, uses = pairs_of_directions(parts, directions), _uses(parts, directions)
    return [
        f"{direction}: {count:,} pairs, {uses[direction] / sum(uses.values()):.1%} of an epoch"
        for direction, count in pairs.items()
    ]


def _uses(parts: Sequence[CorpusPart], directions: Sequence[Direction]) -> dict[Direction, float]:
    """Returns the number of pairs that an epoch uses from each direction, counting repetitions."""
    uses = dict.fromkeys(directions, 0.0)
    for part, direction in zip(parts, directions, strict=True):
        uses[direction] += part.weight * part.pairs
    return uses
