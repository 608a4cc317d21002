"""The metrics by name: sacreBLEU's BLEU, chrF and TER, and two BLEUs on tokenised text with labels of their own."""

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple, get_args

from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from transduce.measure.tokenisers import SPBLEU_TOKENISER, TOKENISERS, sacrebleu_bleu

MetricName = Literal["bleu", "chrf", "ter", "spbleu", "bleu-lowercased-tokenised", "bleu-paper"]
METRICS: tuple[str, ...] = get_args(MetricName)

# ISO 639-3 and 639-2 of the languages that have a tokeniser of their own in sacreBLEU.
_SHORT_CODES = {"zho": "zh", "chi": "zh", "cmn": "zh", "jpn": "ja", "kor": "ko"}


class Metric(NamedTuple):
    """A metric of sacreBLEU, and the preparation of each line of an output and of a reference."""

    scorer: SacrebleuMetric
    prepare_output: Callable[[str], str] = str
    prepare_reference: Callable[[str], str] = str

    @property
    def highest(self) -> float:
        """The largest score that an output can have."""
        return math.inf if isinstance(self.scorer, TER) else 100.0

    def outputs(self, lines: Sequence[str]) -> Sequence[str]:
        """Returns the prepared lines of an output."""
        return [self.prepare_output(line) for line in lines]

    def references(self, lines: Sequence[str]) -> Sequence[str]:
        """Returns the prepared lines of a reference."""
        return [self.prepare_reference(line) for line in lines]


def metric_named(name: str, *, language: str | None, tokenize: str | None = None) -> Metric:
    """Returns the metric `name` for text in `language`; `tokenize` is the tokeniser of `bleu`.

    A region is ignored: `pt-BR` is `pt`. Raises ValueError for an unknown name or tokeniser, and where the metric needs
    a language and has none.
    """
    language = re.split("[-_]", language)[0].lower() if language else None
    match name:
        case "bleu":
            return Metric(_bleu(_SHORT_CODES.get(language or "", language), tokenize))
        case "spbleu":
            return Metric(sacrebleu_bleu(SPBLEU_TOKENISER))
        case "chrf":
            return Metric(CHRF())
        case "ter":
            return Metric(TER())
        case "bleu-lowercased-tokenised":
            return _bleu_lowercased_tokenised(_checked_language(language, name))
        case "bleu-paper":
            return _bleu_paper(_checked_language(language, name))
    raise ValueError(f"metric {name!r} is unknown; the metrics are {', '.join(METRICS)}, and brackets for trees")


def words_of_bleu(lines: Sequence[str], *, language: str | None) -> list[list[str]]:
    """Returns the words of each line, as the metric `bleu` counts them in text of `language`."""
    scorer = metric_named("bleu", language=language).scorer
    assert isinstance(scorer, BLEU)
    return [scorer.tokenizer(line.rstrip()).split() for line in lines]


def _bleu(language: str | None, tokenize: str | None) -> BLEU:
    """Returns sacreBLEU's BLEU: mixed case; tokeniser 13a, or the one that sacreBLEU has for the language."""
    if tokenize is not None and tokenize not in BLEU.TOKENIZERS:
        raise ValueError(f"tokeniser {tokenize!r} is unknown; sacreBLEU has {', '.join(BLEU.TOKENIZERS)}")
    return sacrebleu_bleu(tokenize or TOKENISERS.get(language or "", "13a"))


def _bleu_lowercased_tokenised(language: str) -> Metric:
    """Returns BLEU-4 as papers report it on Multi30k: on the text as its owners prepared it."""
    from transduce.measure import moses

    scorer = _unsmoothed_bleu(f"multi30k-{language}-sacremoses-{moses.VERSION}", lowercase=True)
    prepare = partial(moses.lowercased_tokenised, language=language)
    return Metric(scorer, prepare, prepare)


def _bleu_paper(language: str) -> Metric:
    """Returns BLEU of the paper's Table 2: case-sensitive, compounds split; about a point above sacreBLEU's BLEU."""
    from transduce.measure import moses

    scorer = _unsmoothed_bleu(f"paper-{language}-compounds-split-sacremoses-{moses.VERSION}", lowercase=False)
    output = partial(moses.paper_output, language=language)
    return Metric(scorer, output, partial(moses.paper_reference, language=language))


def _unsmoothed_bleu(label: str, *, lowercase: bool) -> BLEU:
    """Returns unsmoothed BLEU of tokenised text, as `multi-bleu.perl`; its signature names `label` as the tokeniser."""
    scorer = BLEU(tokenize="none", smooth_method="none", lowercase=lowercase, force=True)
    scorer.tokenizer_signature = label
    return scorer


def _checked_language(language: str | None, name: str) -> str:
    """Returns `language`; raises ValueError where it is missing or is no language code."""
    if language is None:
        raise ValueError(f"metric {name!r} tokenises and needs the language of the text, such as `de`")
    if not re.fullmatch("[a-z]{2,3}", language):
        raise ValueError(f"language {language!r} is no ISO 639 code of two or three letters, such as `de`")
    return language
