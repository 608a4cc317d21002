"""Our subwords as the tokenizer files that `AutoTokenizer` reads."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transduce.model_directory import Model
    from transduce.text.token_vocabulary import TokenVocabulary

__all__ = ["TARGET_FOLDER", "write_tokenizers"]

TARGET_FOLDER = "target"  # of the tokenizer that decodes, where the sides have vocabularies of their own


def write_tokenizers(model: "Model", folder: Path, max_length: int) -> None:
    """Writes the tokenizer of the source into `folder`, and that of the target below where it is another one."""
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
        (folder / name).write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", "utf-8")
