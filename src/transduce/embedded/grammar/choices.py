"""Choices: the few shapes that every rule is made of, each of which can be counted, sampled and enumerated."""

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, product
from math import prod
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Draw = Callable[[], float]  # uniform in [0, 1)


class Choice(Protocol[T_co]):
    """A finite set of derivations: how many there are, one of them at random, all of them."""

    count: int

    def sample(self, draw: Draw) -> T_co:
        """One derivation, by the weights; `draw` gives uniform numbers in [0, 1)."""
        ...

    def everything(self) -> Iterator[T_co]:
        """Every derivation once."""
        ...


class Pick(Generic[T]):
    """One of some values, all equally likely unless weighed."""

    def __init__(self, values: Sequence[T], weights: Sequence[float] | None = None) -> None:
        self.values = tuple(values)
        self.count = len(self.values)
        self.cumulative = list(accumulate(weights or [1.0] * self.count))

    def sample(self, draw: Draw) -> T:
        """One of the values."""
        if self.count == 1:
            return self.values[0]
        return self.values[bisect(self.cumulative, draw() * self.cumulative[-1])]

    def everything(self) -> Iterator[T]:
        """The values."""
        return iter(self.values)


class OneOf(Generic[T]):
    """One of several weighed rules; those without a derivation fall away."""

    def __init__(self, *options: tuple[float, Choice[T]]) -> None:
        kept = [(weight, rule) for weight, rule in options if weight and rule.count]
        self.rules = tuple(rule for _, rule in kept)
        self.count = sum(rule.count for rule in self.rules)
        self.cumulative = list(accumulate(weight for weight, _ in kept))

    def sample(self, draw: Draw) -> T:
        """A derivation of one of the rules."""
        if len(self.rules) == 1:
            return self.rules[0].sample(draw)
        return self.rules[bisect(self.cumulative, draw() * self.cumulative[-1])].sample(draw)

    def everything(self) -> Iterator[T]:
        """The derivations of each rule in turn."""
        for rule in self.rules:
            yield from rule.everything()


class Each(Generic[T]):
    """One derivation of each part, put together by `build`."""

    def __init__(self, build: Callable[..., T], *parts: Choice[Any]) -> None:
        self.build = build
        self.parts = parts
        self.count = prod(part.count for part in parts)

    def sample(self, draw: Draw) -> T:
        """One derivation of each part."""
        return self.build(*[part.sample(draw) for part in self.parts])

    def everything(self) -> Iterator[T]:
        """Every combination."""
        for parts in product(*(list(part.everything()) for part in self.parts)):
            yield self.build(*parts)


def evenly(*rules: Choice[T]) -> OneOf[T]:
    """One of several rules, all equally likely."""
    return OneOf(*((1.0, rule) for rule in rules))


def maybe(share: float, rule: Choice[T]) -> OneOf[T | None]:
    """A share of the time what the rule gives, else nothing."""
    nothing: Choice[T | None] = Pick([None])
    return OneOf((1.0 - share, nothing), (share, rule))
