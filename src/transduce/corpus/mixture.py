"""The mixture of directions: how often an epoch uses the pairs of each corpus, given weights and temperature."""

from collections.abc import Sequence

from transduce.corpus.corpus_kinds import MAX_WEIGHT
from transduce.corpus.data_spec import DataSpec
from transduce.corpus.store.token_store import CorpusPart
from transduce.text.directions import Direction


def with_temperature(
    parts: Sequence[CorpusPart], directions: Sequence[Direction], temperature: float | None
) -> tuple[CorpusPart, ...]:
    """Reweights the parts so that each direction gets a share of an epoch proportional to n^(1/temperature).

    n is how often an epoch would use the direction's pairs if only the weights of its corpora counted. The ratios
    between these weights stay the same, and so does the total number of uses over all directions (Arivazhagan et al.
    2019, section 3.2).
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
    """Number of distinct pairs of each direction."""
    pairs = dict.fromkeys(directions, 0)
    for part, direction in zip(parts, directions, strict=True):
        pairs[direction] += part.pairs
    return pairs


def describe_mixture(parts: Sequence[CorpusPart], data: DataSpec) -> list[str]:
    """Returns a line for each direction, with its pairs and its share of an epoch; none if there is only one."""
    if len(data.directions) == 1:
        return []
    directions = [data.direction_of(corpus) for corpus in data.train]
    pairs, uses = pairs_of_directions(parts, directions), _uses(parts, directions)
    return [
        f"{direction}: {count:,} pairs, {uses[direction] / sum(uses.values()):.1%} of an epoch"
        for direction, count in pairs.items()
    ]


def _uses(parts: Sequence[CorpusPart], directions: Sequence[Direction]) -> dict[Direction, float]:
    """Returns the number of pairs of each direction that an epoch uses, including repetitions."""
    uses = dict.fromkeys(directions, 0.0)
    for part, direction in zip(parts, directions, strict=True):
        uses[direction] += part.weight * part.pairs
    return uses
