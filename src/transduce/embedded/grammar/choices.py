"""Choices: the few shapes that every rule is made of, each of which can be counted, sampled and enumerated."""

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, product
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
Draw = Callable[[], float]  # uniform in [0, 1)


class Choice(Protocol[T]):
    """A finite set of derivations: how many there are, one of them at random, all of them."""

    count: int

    def sample(self, draw: Draw) -> T:
        """One derivation, by the weights; `draw` gives uniform numbers in [0, 1)."""
        ...

    def everything(self) -> Iterator[T]:
        """Every derivation once."""
        ...


class Pick(Generic[T]):
    """One of some values, all equally likely unless weighed."""

    def __init__(self, values: Sequence[T], weights: Sequence[float] | None = None) -> None:
        self.values = tuple(values)
        self.count = len(self.values)
        self.cumulative = list(accumulate(weights or [1.0] * self.count))

    def sample(self, draw: Draw) -> T:
        if self.count == 1:
            return self.values[0]
        return self.values[bisect(self.cumulative, draw() * self.cumulative[-1])]

    def everything(self) -> Iterator[T]:
        return iter(self.values)


class OneOf(Generic[T]):
    """One of several rules; those without a derivation fall away."""

    def __init__(self, *options: tuple[float, Choice[T]]) -> None:
        kept = [(weight, rule) for weight, rule in options if rule.count and weight > 0]
        self.rules = tuple(rule for _, rule in kept)
        self.count = sum(rule.count for rule in self.rules)
        self.cumulative = list(accumulate(weight for weight, _ in kept))

    def sample(self, draw: Draw) -> T:
        if len(self.rules) == 1:
            return self.rules[0].sample(draw)
        return self.rules[bisect(self.cumulative, draw() * self.cumulative[-1])].sample(draw)

    def everything(self) -> Iterator[T]:
        for rule in self.rules:
            yield from rule.everything()


class Each(Generic[T]):
    """One derivation of each part, put together by `build`."""

    def __init__(self, build: Callable[..., T], *parts: Choice[Any]) -> None:
        self.build = build
        self.parts = parts
        self.count = 1
        for part in parts:
            self.count *= part.count

    def sample(self, draw: Draw) -> T:
        return self.build(*[part.sample(draw) for part in self.parts])

    def everything(self) -> Iterator[T]:
        for parts in product(*(list(part.everything()) for part in self.parts)):
            yield self.build(*parts)


def evenly(*rules: Choice[T]) -> OneOf[T]:
    """One of several rules, all equally likely."""
    return OneOf(*((1.0, rule) for rule in rules))
