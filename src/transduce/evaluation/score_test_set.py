"""Scores a model on a test set: translations by metrics, or trees by F1 (`parsing.tree_scores`).

`transduce evaluate` prints these scores; fine-tuning reports them before and after.
"""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from transduce.corpus.corpus_kinds import CorpusSpec, ParallelCorpus
from transduce.corpus.readers import ParallelText, read_parallel_text
from transduce.evaluation.validation import ValidationScore
from transduce.measure.scoring import Score, scores
from transduce.model_directory.config import Config
from transduce.settings import from_satellite
from transduce.text.directions import Direction
from transduce.translation.search_method import SearchMethod, search_method
from transduce.translation.source_request import SourceRequest
from transduce.translation.translator import Translator


class TranslatedTest(NamedTuple):
    """Translations of a test set, their number of tokens, the seconds that they took, and the scores by metric."""

    lines: list[str]
    tokens: int
    seconds: float
    scores: dict[str, Score]


def request_for_corpus(config: Config, corpus: CorpusSpec) -> SourceRequest:
    """Builds the request for a corpus that names its languages; for a model with one direction, it contains only the
    tag.
    """
    if not isinstance(corpus, ParallelCorpus) or not config.directions:
        return SourceRequest(tag=corpus.tag)
    source, target = corpus.languages_or(Direction(None, None))
    return SourceRequest(target, source, corpus.tag)


def translate_test(
    corpus: ParallelText,
    metrics: Sequence[str],
    language: str | None,
    bootstrap: int | None,
    translator: Translator,
    method: SearchMethod,
) -> TranslatedTest:
    """Translates the source and scores the translations; `language` is the target language."""
    began = time.perf_counter()
    translations = [best[0] for best in translator.translate_lines(corpus.source, method)]
    seconds = time.perf_counter() - began
    lines, tokens = [best.text for best in translations], sum(len(best.tokens) + 1 for best in translations)
    results = scores(lines, [corpus.target], metrics, language=language, bootstrap=bootstrap)
    return TranslatedTest(lines, tokens, seconds, results)


def score_test(
    spec: CorpusSpec, name: str, translator: Translator, language: str | None, bootstrap: int
) -> ValidationScore:
    """Returns BLEU of a model's translations of a test set, or F1 of its trees, with a confidence interval."""
    if translator.linearisation is not None:
        f1_of_test: Callable[..., ValidationScore] = from_satellite("transduce.parsing.tree_scores:f1_of_test")
        return f1_of_test(spec, name, translator, bootstrap)
    corpus, method = read_parallel_text(spec), search_method(translator.decoding)
    bleu = translate_test(corpus, ["bleu"], language, bootstrap, translator, method).scores["bleu"]
    return ValidationScore("bleu", bleu.score, bleu.signature, bleu.low, bleu.high)
