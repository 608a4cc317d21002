"""The models of a server, and the translation directions that each of them serves."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from transduce.serving.batch_queue import BatchQueue
from transduce.serving.language_names import matching_code
from transduce.text.directions import Direction
from transduce.translation.confidence import CONFIDENCE, Calibration
from transduce.translation.translator import Translator


class ServedDirection(NamedTuple):
    """A translation direction, with its translator and the queue of its model."""

    source: str
    target: str
    translator: Translator
    queue: BatchQueue
    calibration: Calibration | None  # None if the model has no `confidence.json`


def serve_model(
    run: Path,
    translator: Translator,
    queue: BatchQueue,
    languages: Direction,
    tag: str | None = None,
) -> Iterator[ServedDirection]:
    """Yields the directions of a model, or only the direction `languages` if its codes are not None.

    If the model does not record its languages, `languages` names them. Raises ValueError if the model is a parser, if
    its languages are neither recorded nor given, or if it does not translate in the direction `languages`.
    """
    config = translator.configs[0]
    if config.linearisation is not None:
        raise ValueError(f"{run} parses and does not translate: `transduce parse` runs it")
    calibration = Calibration.read(run) if (run / CONFIDENCE).exists() else None
    recorded = sorted({(pair.source, pair.target) for pair in config.directions})
    if not recorded:
        source, target = config.source_language or languages.source, config.target_language or languages.target
        if source is None or target is None:
            raise ValueError(f"{run} does not record its languages: name them, such as en:de={run}")
        recorded = [(source, target)]
    chosen = recorded if languages.source is None else [pair for pair in recorded if pair == tuple(languages)]
    if not chosen:
        translated = ", ".join(f"{source}:{target}" for source, target in recorded)
        raise ValueError(f"{languages.source}:{languages.target}={run}: the model translates {translated}")
    for source, target in chosen:
        tagged = translator.into(target, source_language=source, tag=tag) if config.directions else translator
        yield ServedDirection(source, target, tagged, queue, calibration)


class ServedModels:
    """Finds the model for a direction; each direction is served by exactly one model."""

    def __init__(self, directions: Sequence[ServedDirection]) -> None:
        """Indexes the models by direction; raises ValueError if two models have the same direction."""
        self.directions: dict[Direction, ServedDirection] = {}
        for served in directions:
            direction = Direction(served.source, served.target)
            if direction in self.directions:
                raise ValueError(f"two models translate {direction}: serve one of them")
            self.directions[direction] = served

    @property
    def queues(self) -> list[BatchQueue]:
        """Returns the queues of all models."""
        return list({id(served.queue): served.queue for served in self.directions.values()}.values())

    @property
    def languages(self) -> list[str]:
        """Returns the codes of all source and target languages, in alphabetical order."""
        return sorted({code for served in self.directions.values() for code in (served.source, served.target)})

    def targets(self, source: str) -> list[str]:
        """Returns the languages into which `source` can be translated, in alphabetical order."""
        return sorted(served.target for served in self.directions.values() if served.source == source)

    def sources(self, target: str) -> list[str]:
        """Returns the languages that can be translated into `target`, in alphabetical order."""
        return sorted(served.source for served in self.directions.values() if served.target == target)

    def language(self, code: str) -> str:
        """Returns the served language code that a client means by `code`; raises ValueError if there is none."""
        served = matching_code(code, self.languages)
        if served is None:
            raise ValueError(f"{code} is not supported")
        return served

    def find(self, source: str, target: str) -> ServedDirection:
        """Returns the direction from `source` to `target`, two served codes; raises ValueError if there is none."""
        served = self.directions.get(Direction(source, target))
        if served is None:
            others = ", ".join(map(str, sorted(self.directions)))
            raise ValueError(f"{target} ({source}-{target}) is not supported; this server translates {others}")
        return served

    def close(self) -> None:
        """Translates all waiting sentences, then ends the threads of all models."""
        for queue in self.queues:
            queue.close()
