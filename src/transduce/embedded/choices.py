"""Building blocks for grammar rules: choices that can be counted, sampled and enumerated."""

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, product
from math import prod
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Draw = Callable[[], float]  # uniform in [0, 1)


class Choice(Protocol[T_co]):
    """A finite set of derivations; `count` is the number of derivations."""

    count: int

    def sample(self, draw: Draw) -> T_co:
        """Samples a derivation according to the weights; `draw` returns uniform random numbers in [0, 1)."""
        ...

    def derivations(self) -> Iterator[T_co]:
        """Yields every derivation once."""
        ...


class Pick(Generic[T]):
    """A choice between values, which are equally likely unless `weights` are given."""

    def __init__(self, values: Sequence[T], weights: Sequence[float] | None = None) -> None:
        self.values = tuple(values)
        self.count = len(self.values)
        self.cumulative = list(accumulate(weights or [1.0] * self.count))

    def sample(self, draw: Draw) -> T:
        """Samples a value according to the weights."""
        if self.count == 1:
            return self.values[0]
        return self.values[bisect(self.cumulative, draw() * self.cumulative[-1])]

    def derivations(self) -> Iterator[T]:
        """Yields every value once."""
        return iter(self.values)


class OneOf(Generic[T]):
    """A choice between several weighted choices.

    Choices whose weight is zero, or that have no derivations, are left out.
    """

    def __init__(self, *options: tuple[float, Choice[T]]) -> None:
        possible = [(weight, choice) for weight, choice in options if weight and choice.count]
        self.choices = tuple(choice for _, choice in possible)
        self.count = sum(choice.count for choice in self.choices)
        self.cumulative = list(accumulate(weight for weight, _ in possible))

    def sample(self, draw: Draw) -> T:
        """Samples one of the choices according to the weights, then a derivation of that choice."""
        if len(self.choices) == 1:
            return self.choices[0].sample(draw)
        return self.choices[bisect(self.cumulative, draw() * self.cumulative[-1])].sample(draw)

    def derivations(self) -> Iterator[T]:
        """Yields the derivations of each choice in turn."""
        for choice in self.choices:
            yield from choice.derivations()


class Combine(Generic[T]):
    """A choice of one derivation from each part, which `build` combines into a single derivation."""

    def __init__(self, build: Callable[..., T], *parts: Choice[Any]) -> None:
        self.build = build
        self.parts = parts
        self.count = prod(part.count for part in parts)

    def sample(self, draw: Draw) -> T:
        """Samples a derivation of each part and combines them."""
        return self.build(*[part.sample(draw) for part in self.parts])

    def derivations(self) -> Iterator[T]:
        """Yields every combination of derivations of the parts."""
        for parts in product(*(list(part.derivations()) for part in self.parts)):
            yield self.build(*parts)


def evenly(*choices: Choice[T]) -> OneOf[T]:
    """Returns a choice between several equally likely choices."""
    return OneOf(*((1.0, choice) for choice in choices))


def maybe(probability: float, choice: Choice[T]) -> OneOf[T | None]:
    """Returns a choice that is `choice` with the given probability, and None otherwise."""
    nothing: Choice[T | None] = Pick([None])
    return OneOf((1.0 - probability, nothing), (probability, choice))
