"""Scores a model on a test set, with metrics such as BLEU for translations and with F1 for trees.

The command `transduce evaluate` prints these scores, and fine-tuning reports them before and after training. The F1 of
trees is computed in `parsing.tree_scores`.
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
    """The translations of a test set and their scores by metric.

    `tokens` is the number of tokens in the translations, including EOS, and `seconds` is the time that they took.
    """

    lines: list[str]
    tokens: int
    seconds: float
    scores: dict[str, Score]


def request_for_corpus(config: Config, corpus: CorpusSpec) -> SourceRequest:
    """Returns the source request for translating a corpus.

    For a model with several directions, it contains the languages and the tag of the corpus. For a model with a single
    direction, it contains only the tag.
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
    """Translates the source side of a test set and scores the translations.

    `language` is the target language, on which the tokenisation of some metrics depends. `bootstrap` is the number of
    resamples for confidence intervals, or None for no confidence intervals.
    """
    began = time.perf_counter()
    translations = [best[0] for best in translator.translate_lines(corpus.source, method)]
    seconds = time.perf_counter() - began
    lines, tokens = [best.text for best in translations], sum(len(best.tokens) + 1 for best in translations)
    results = scores(lines, [corpus.target], metrics, language=language, bootstrap=bootstrap)
    return TranslatedTest(lines, tokens, seconds, results)


def score_test(
    spec: CorpusSpec, name: str, translator: Translator, language: str | None, bootstrap: int
) -> ValidationScore:
    """Scores a model on a test set and returns the score with its confidence interval.

    The score is BLEU for a translation model and F1 for a parser.
    """
    if translator.linearisation is not None:
        f1_of_test: Callable[..., ValidationScore] = from_satellite("transduce.parsing.tree_scores:f1_of_test")
        return f1_of_test(spec, name, translator, bootstrap)
    corpus, method = read_parallel_text(spec), search_method(translator.decoding)
    bleu = translate_test(corpus, ["bleu"], language, bootstrap, translator, method).scores["bleu"]
    return ValidationScore("bleu", bleu.score, bleu.signature, bleu.low, bleu.high)
