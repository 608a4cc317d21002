"""The metrics by their names: sacreBLEU's own, and two older BLEUs on tokenised text under their own labels."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple, get_args

from sacrebleu.metrics.base import Metric as Counter
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

__all__ = ["METRICS", "Metric", "metric_named"]

Name = Literal["bleu", "chrf", "ter", "bleu-lowercased-tokenised", "bleu-paper"]
METRICS: tuple[str, ...] = get_args(Name)


class Metric(NamedTuple):
    """What a line of each side becomes, and the sacreBLEU metric that counts what they share."""

    counter: Counter
    output: Callable[[str], str] = str
    reference: Callable[[str], str] = str

    def outputs(self, lines: Sequence[str]) -> Sequence[str]:
        """A system's lines as the counter wants them."""
        return [self.output(line) for line in lines]

    def references(self, lines: Sequence[str]) -> Sequence[str]:
        """A stream of references as the counter wants it."""
        return [self.reference(line) for line in lines]


def metric_named(name: str, *, language: str | None, tokenize: str | None = None) -> Metric:
    """The metric called `name`; `tokenize` is the tokeniser of `bleu`, `language` the language measured.

    Of a language as it is written in a region, such as `pt-BR`, the language counts.
    """
    language = re.split("[-_]", language)[0].lower() if language else None
    match name:
        case "bleu":
            return Metric(_bleu(language, tokenize))
        case "chrf":
            return Metric(CHRF())
        case "ter":
            return Metric(TER())
        case "bleu-lowercased-tokenised":
            return _bleu_lowercased_tokenised(_needed(language, name))
        case "bleu-paper":
            return _bleu_paper(_needed(language, name))
    raise ValueError(f"metric {name!r} is unknown; the metrics are {', '.join(METRICS)}")


def _bleu(language: str | None, tokenize: str | None) -> BLEU:
    """sacreBLEU's BLEU: 13a and mixed case, but for languages that sacreBLEU tokenises in their own way."""
    if tokenize is not None and tokenize not in BLEU.TOKENIZERS:
        raise ValueError(f"tokeniser {tokenize!r} is unknown; sacreBLEU has {', '.join(BLEU.TOKENIZERS)}")
    try:
        # Its warning of tokenised text speaks of a parameter that our users do not have; ours is in scores.py.
        return BLEU(tokenize=tokenize, trg_lang=language or "", force=True)
    except (ImportError, RuntimeError) as error:
        message = " ".join(str(error).split())
        raise ValueError(f"sacreBLEU cannot tokenise {tokenize or language!r}: {message}") from None


def _bleu_lowercased_tokenised(language: str) -> Metric:
    """BLEU-4 as papers report it on Multi30k: on the owners' lower-cased, normalised, tokenised text."""
    from transduce.measure import moses  # Half a second that the other metrics need not wait for.

    counter = _unsmoothed(f"multi30k-{language}-sacremoses-{moses.VERSION}", lowercase=True)
    prepared = partial(moses.lowercased_tokenised, language=language)
    return Metric(counter, prepared, prepared)


def _bleu_paper(language: str) -> Metric:
    """BLEU of the paper's Table 2, case-sensitive, compounds split: about a point above sacreBLEU's BLEU."""
    from transduce.measure import moses

    counter = _unsmoothed(f"paper-{language}-compounds-split-sacremoses-{moses.VERSION}", lowercase=False)
    output = partial(moses.paper_output, language=language)
    return Metric(counter, output, partial(moses.paper_reference, language=language))


def _unsmoothed(label: str, *, lowercase: bool) -> BLEU:
    """Moses's `multi-bleu.perl`: text as it comes, no smoothing. `label` stands for the tokeniser."""
    counter = BLEU(tokenize="none", smooth_method="none", lowercase=lowercase, force=True)
    counter.tokenizer_signature = label
    return counter


def _needed(language: str | None, name: str) -> str:
    """`language`, where it is one that Moses could know."""
    if language is None:
        raise ValueError(f"metric {name!r} tokenises and needs the language of the text, such as `de`")
    if not re.fullmatch("[a-z]{2,3}", language):
        raise ValueError(f"language {language!r} is no ISO 639 code of two or three letters, such as `de`")
    return language
