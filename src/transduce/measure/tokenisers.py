"""BLEU with each of sacreBLEU's tokenisers, and what to do where a tokeniser lacks its package or its file."""

from pathlib import Path

from sacrebleu import utils
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers import tokenizer_spm

TOKENISERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}  # by language; sacreBLEU's own choice
SPBLEU_TOKENISER = "flores200"  # the SentencePiece model of FLORES-200 (NLLB team 2022)
EXTRAS = {"ja-mecab": "japanese", "ko-mecab": "korean"}


def sacrebleu_bleu(tokeniser: str) -> BLEU:
    """Returns BLEU of mixed case with one of sacreBLEU's tokenisers.

    Raises ValueError, which names the remedy, where the tokeniser lacks its package, or its file cannot be downloaded.
    """
    try:
        # `force` silences sacreBLEU's warning of tokenised text, which names a parameter that our users do not have;
        # scores.py has a warning of its own.
        return BLEU(tokenize=tokeniser, force=True)
    except (ImportError, RuntimeError, OSError) as error:
        raise ValueError(_remedy(tokeniser, error)) from None
    except SystemExit:  # sacreBLEU's download exits where the certificate of the server fails
        raise ValueError(_remedy(tokeniser, OSError("the certificate was refused"))) from None


def _remedy(tokeniser: str, error: Exception) -> str:
    """Returns the message for a tokeniser that cannot be loaded."""
    reason = " ".join(str(error).split())
    if tokeniser in EXTRAS:
        return f"sacreBLEU cannot tokenise with {tokeniser}: pip install 'transduce[{EXTRAS[tokeniser]}]' ({reason})"
    if isinstance(error, ImportError):
        return f"sacreBLEU cannot tokenise with {tokeniser}: pip install 'transduce[sentencepiece]'"
    address = tokenizer_spm.SPM_MODELS[tokeniser]["url"]
    path = Path(utils.SACREBLEU_DIR, "models", Path(address).name)
    if path.exists():
        return f"{path} is no SentencePiece model, which {tokeniser} needs; remove the file, or replace it by {address}"
    return (
        f"{tokeniser} needs a SentencePiece model, which cannot be downloaded ({reason}); save {address} as {path}, "
        "or set SACREBLEU to a folder that has it in its folder models"
    )
