"""What the settings of a model record about its languages: one direction, or several, and the tags of its corpora."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from transduce.corpus import CorpusPart, DataSpec, pairs_of_directions
from transduce.model_directory import Config, TrainedDirection
from transduce.recipe.fine_tuning import StartingPoint

__all__ = ["TrainedLanguages"]


class TrainedLanguages(NamedTuple):
    """The languages, directions and tags of a model."""

    source_language: str | None  # as the recipe has it, where there is one direction
    target_language: str | None
    directions: tuple[TrainedDirection, ...]
    tags: tuple[str | None, ...]  # None is a corpus without a tag; none at all where no corpus has a tag

    @classmethod
    def of(cls, data: DataSpec, parts: Sequence[CorpusPart]) -> "TrainedLanguages":
        """Returns the languages of corpora, of whose pairs the store has `parts`."""
        pairs = pairs_of_directions(parts, [data.direction_of(corpus) for corpus in data.train])
        directions = tuple(
            TrainedDirection(source=direction.source, target=direction.target, pairs=count)
            for direction, count in pairs.items()
            if direction.source is not None and direction.target is not None
        )
        tags = tuple(dict.fromkeys(corpus.tag for corpus in data.train))
        return cls(*data.directions[0], directions, () if tags == (None,) else tags)

    def inherit(self, config: Config | StartingPoint) -> "TrainedLanguages":
        """Returns these languages and those of another model, such as that of `--from`."""
        own = {str(direction) for direction in self.directions}
        others = tuple(direction for direction in config.directions if str(direction) not in own)
        has_tags = self.tags or config.tags
        tags = dict.fromkeys([*(self.tags or (None,)), *(config.tags or (None,))]) if has_tags else {}
        source = self.source_language or config.source_language
        target = self.target_language or config.target_language
        return TrainedLanguages(source, target, (*self.directions, *others), tuple(tags))

    def as_fields(self) -> dict[str, Any]:
        """Returns the fields of `Config`: source and target of one direction, or a list of several."""
        fields = self._asdict()
        if len(self.directions) > 1:
            return {**fields, "source_language": None, "target_language": None}
        return {**fields, "directions": ()}
