"""Looks up metrics by name: sacreBLEU's BLEU, chrF and TER, and two variants of BLEU on tokenised text.

The two variants have their own labels in the signature. If a tokeniser of sacreBLEU lacks its package or its model
file, the error message explains what to do.
"""

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sacrebleu import utils
from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER
from sacrebleu.tokenizers import tokenizer_spm

from transduce.measure.metric_choice import METRICS
from transduce.runtime.extras import install_command
from transduce.settings import did_you_mean
from transduce.text.language_codes import check_language

TOKENISERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}  # by language, as sacreBLEU chooses them
TOKENISERS |= dict.fromkeys(("th", "lo", "km", "my"), "char")  # these languages do not put spaces between words
SPBLEU_TOKENISER = "flores200"  # the SentencePiece model of FLORES-200 (NLLB team 2022)
EXTRAS = {"ja-mecab": "japanese", "ko-mecab": "korean"}

# ISO 639-3 and 639-2 codes of the languages that have their own tokeniser in sacreBLEU.
_SHORT_CODES = {"zho": "zh", "chi": "zh", "cmn": "zh", "jpn": "ja", "kor": "ko"}
_SHORT_CODES |= {"tha": "th", "lao": "lo", "khm": "km", "mya": "my", "bur": "my"}


class Metric(NamedTuple):
    """A metric of sacreBLEU, with the functions that preprocess each line of an output and of a reference."""

    scorer: SacrebleuMetric
    prepare_output: Callable[[str], str] = str
    prepare_reference: Callable[[str], str] = str

    @property
    def highest(self) -> float:
        """The highest score that an output can have."""
        return math.inf if isinstance(self.scorer, TER) else 100.0

    def outputs(self, lines: Sequence[str]) -> Sequence[str]:
        """Preprocesses the lines of an output."""
        return [self.prepare_output(line) for line in lines]

    def references(self, lines: Sequence[str]) -> Sequence[str]:
        """Preprocesses the lines of a reference."""
        return [self.prepare_reference(line) for line in lines]


def metric_named(name: str, *, language: str | None, tokenize: str | None = None) -> Metric:
    """Returns the metric called `name` for text in `language`.

    `tokenize` overrides the default tokeniser of `bleu`. The region in a language code is ignored, so that `pt-BR` is
    treated like `pt`.

    Raises ValueError if the name or the tokeniser is unknown, or if the metric needs a language and none is given.
    """
    language = re.split("[-_]", check_language(language))[0].lower() if language else None
    short_code = _SHORT_CODES.get(language or "", language or "")
    match name:
        case "bleu":
            if tokenize is not None and tokenize not in BLEU.TOKENIZERS:
                raise ValueError(f"tokeniser {tokenize!r} is unknown; sacreBLEU has {', '.join(BLEU.TOKENIZERS)}")
            return Metric(_sacrebleu_bleu(tokenize or TOKENISERS.get(short_code, "13a")))
        case "spbleu":
            return Metric(_sacrebleu_bleu(SPBLEU_TOKENISER))
        case "chrf":
            return Metric(CHRF())
        case "ter":
            has_words = short_code not in ("zh", "ja")  # in Chinese and Japanese each character must count as a word
            return Metric(TER() if has_words else TER(normalized=True, asian_support=True))
        case "bleu-lowercased-tokenised" | "bleu-paper":
            return _bleu_of_moses(name, language)
    meant = did_you_mean(name, METRICS)
    raise ValueError(
        f"metric {name!r} is unknown{meant or ';'} the metrics are {', '.join(METRICS)}; for trees brackets"
    )


def remark_on_short_lines(references: Sequence[str], *, language: str | None) -> str | None:
    """Returns a remark if no line of the reference has at least four words, and None otherwise.

    BLEU is then 0 for every output, because the reference contains no 4-grams.
    """
    scorer = metric_named("bleu", language=language).scorer
    assert isinstance(scorer, BLEU)
    # `any` stops at the first line with four words, which is usually the first line of the text.
    if any(len(scorer.tokenizer(line.rstrip()).split()) >= 4 for line in references):
        return None
    return "no line of the reference has four words, so that BLEU is 0 for every output"


def words_of_bleu(lines: Sequence[str], *, language: str | None) -> list[list[str]]:
    """Splits each line into words with the tokeniser that the metric `bleu` uses for text in `language`."""
    scorer = metric_named("bleu", language=language).scorer
    assert isinstance(scorer, BLEU)
    return [scorer.tokenizer(line.rstrip()).split() for line in lines]


def _sacrebleu_bleu(tokeniser: str) -> BLEU:
    """Returns case-sensitive BLEU with one of sacreBLEU's tokenisers.

    Raises ValueError, with a message that explains what to do, if the tokeniser's package or model file is missing.
    """
    try:
        # `force` silences sacreBLEU's warning about tokenised text, because it mentions a parameter that our users do
        # not have; scoring.py logs a warning of its own.
        return BLEU(tokenize=tokeniser, force=True)
    except (ImportError, RuntimeError, OSError) as error:
        lacks_package, reason = isinstance(error, ImportError), " ".join(str(error).split())
    except SystemExit:  # sacreBLEU exits if the server's certificate is refused during a download
        lacks_package, reason = False, "the certificate was refused"
    if tokeniser in EXTRAS:
        extra = EXTRAS[tokeniser]
        raise ValueError(f"sacreBLEU cannot tokenise with {tokeniser}: {install_command(extra)} ({reason})")
    if lacks_package:
        raise ValueError(f"sacreBLEU cannot tokenise with {tokeniser}: {install_command('sentencepiece')}")
    address = tokenizer_spm.SPM_MODELS[tokeniser]["url"]
    path = Path(utils.SACREBLEU_DIR, "models", Path(address).name)
    if path.exists():
        raise ValueError(
            f"{path} is not a SentencePiece model, which {tokeniser} needs; remove the file, or replace it by {address}"
        )
    raise ValueError(
        f"{tokeniser} needs a SentencePiece model, which cannot be downloaded ({reason}); save {address} as {path}, "
        "or set SACREBLEU to a folder that has it in its folder models"
    )


def _bleu_of_moses(name: str, language: str | None) -> Metric:
    """Returns unsmoothed BLEU on tokenised text, as in `multi-bleu.perl`, with the tokeniser in its signature.

    `bleu-lowercased-tokenised` is BLEU-4 as papers report it on Multi30k, whose authors preprocessed the text in this
    way. `bleu-paper` is the BLEU of the paper's Table 2. It is case-sensitive and computed after compounds have been
    split, and it is about one point higher than sacreBLEU's BLEU.
    """
    if language is None:
        raise ValueError(f"metric {name!r} tokenises and needs the language of the text, such as `de`")
    from transduce.measure import moses

    is_papers = name == "bleu-paper"
    scorer = BLEU(tokenize="none", smooth_method="none", lowercase=not is_papers, force=True)
    label = f"paper-{language}-compounds-split" if is_papers else f"multi30k-{language}"
    scorer.tokenizer_signature = f"{label}-sacremoses-{moses.VERSION}"
    prepare_output = moses.paper_output if is_papers else moses.lowercased_tokenised
    prepare_reference = moses.paper_reference if is_papers else moses.lowercased_tokenised
    return Metric(scorer, partial(prepare_output, language=language), partial(prepare_reference, language=language))
