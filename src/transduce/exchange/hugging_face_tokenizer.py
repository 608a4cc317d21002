"""Our subwords as the tokenizer files that `AutoTokenizer` reads."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transduce.text.sentence_pieces import SentencePieces

if TYPE_CHECKING:
    from transduce.model_directory import Model
    from transduce.text.token_vocabulary import TokenVocabulary

__all__ = ["TARGET_FOLDER", "write_tokenizers"]

MARIAN_SYMBOLS = ("<pad>", "<s>", "</s>")  # the names of pad, begin and end
TARGET_FOLDER = "target"  # of the tokenizer that decodes, where the sides have vocabularies of their own


def write_tokenizers(model: "Model", folder: Path, max_length: int) -> None:
    """Writes the tokenizer of the source into `folder`, and that of the target below where it is another one.

    Models with SentencePiece have one `MarianTokenizer` for both sides.
    """
    if isinstance(model.source, SentencePieces) and isinstance(model.target, SentencePieces):
        languages = {"source_lang": model.config.source_language, "target_lang": model.config.target_language}
        _write_marian_tokenizer(model.source, model.target, folder, {"model_max_length": max_length, **languages})
        return
    _write_tokenizer(model, model.source, folder, max_length)
    if model.target is not model.source:
        _write_tokenizer(model, model.target, folder / TARGET_FOLDER, max_length)


def _write_tokenizer(model: "Model", side: "TokenVocabulary", folder: Path, max_length: int) -> None:
    """Writes `tokenizer.json`, which appends the end symbol, and `tokenizer_config.json`, which names the symbols."""
    symbols, strings = model.config.model.symbols, side.vocabulary
    pad, begin, end = (strings[token] for token in (symbols.pad, symbols.begin, symbols.end))
    tokenizer: dict[str, Any] = json.loads(side.as_json())
    tokenizer["added_tokens"] = [
        {
            "id": token,
            "content": strings[token],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for token in sorted({symbols.pad, symbols.begin, symbols.end})
    ]
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": end, "type_id": 0}}],
        "pair": [
            {"Sequence": {"id": "A", "type_id": 0}},
            {"Sequence": {"id": "B", "type_id": 0}},
            {"SpecialToken": {"id": end, "type_id": 0}},
        ],
        "special_tokens": {end: {"id": end, "ids": [symbols.end], "tokens": [end]}},
    }
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": pad,
        "bos_token": begin,
        "eos_token": end,
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
        # Text that is spelt like a symbol stays text.
        "split_special_tokens": True,
    }
    folder.mkdir(exist_ok=True)
    for name, values in (("tokenizer.json", tokenizer), ("tokenizer_config.json", config)):
        (folder / name).write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", "utf-8", newline="\n")


def _write_marian_tokenizer(
    source: SentencePieces, target: SentencePieces, folder: Path, settings: dict[str, Any]
) -> None:
    """Writes the SentencePiece models and the ids of their pieces, which `MarianTokenizer` reads, and `settings`."""
    separate = source.vocabulary != target.vocabulary
    for side, model_file, vocabulary_file in (
        (source, "source.spm", "vocab.json"),
        (target, "target.spm", "target_vocab.json" if separate else "vocab.json"),
    ):
        (folder / model_file).write_bytes(side.model_file)
        pieces = [*MARIAN_SYMBOLS, *side.vocabulary[len(MARIAN_SYMBOLS) :]]
        ids = {piece: token for token, piece in enumerate(pieces)}
        (folder / vocabulary_file).write_text(
            json.dumps(ids, ensure_ascii=False, indent=1) + "\n", "utf-8", newline="\n"
        )
    config = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": separate,
        **{key: value for key, value in settings.items() if value is not None},
        "unk_token": source.vocabulary[source.content.unknown],
        "pad_token": MARIAN_SYMBOLS[0],
        "eos_token": MARIAN_SYMBOLS[2],
        "split_special_tokens": True,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8", newline="\n")
