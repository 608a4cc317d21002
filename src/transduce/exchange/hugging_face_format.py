"""Exports models to classes of Hugging Face's `transformers`, so that our code is not needed to load them.

Models with post-norm, as in the paper, become a `MarianMTModel`, and models with pre-norm become a
`PegasusForConditionalGeneration`. Both classes use sinusoids in the layout sin | cos. If a model has `interleaved`
positions, its dimensions are reordered to that layout. Positions of any other kind are written as a table.
"""

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from transduce.exchange.engine_limits import check_is_untagged, check_products, length_power, refusal
from transduce.exchange.foreign_formats import foreign_format, named_layers
from transduce.exchange.moses_bpe import MosesBpe
from transduce.exchange.parity import EngineTranslation, import_engine
from transduce.exchange.subword_files import SPM_FILES
from transduce.exchange.transformer_weights import (
    AS_THEY_ARE,
    Order,
    attentions_of,
    position_tables,
    transformer_weights,
)
from transduce.model.embedding import Sinusoidal
from transduce.model.feed_forward import FeedForward
from transduce.model.readout import Tied
from transduce.model.transformer import Transformer
from transduce.model.translation_model import Symbols
from transduce.model_directory.model import Model
from transduce.storage.atomic import write_tensors
from transduce.text.sentence_pieces import SentencePieces
from transduce.text.subwords import Subwords
from transduce.text.token_vocabulary import TokenVocabulary, share_subwords
from transduce.translation.engine import SearchRules
from transduce.translation.results import one_line

TARGET_FOLDER = "target"  # folder of the target tokenizer, if the sides have different vocabularies

CLASSES = {"post": ("marian", "MarianMTModel"), "pre": ("pegasus", "PegasusForConditionalGeneration")}
"""The model type and the class for each placement of the layer normalisation."""

SINUSOIDS = Sinusoidal(layout="paper-halves"), Sinusoidal(layout="interleaved")
"""The positions that both classes can represent. For the second kind, the dimensions are reordered."""

IMPOSSIBLE = -1e9  # logit of the rows that pad the smaller vocabulary

MARIAN_SYMBOLS = ("<pad>", "<s>", "</s>")  # Marian's names for padding, BOS and EOS
LINES_AT_ONCE = 32

CARD = files(__package__) / "templates" / "hugging_face_card.md"
ORIGINS = ("trained with", "trained by another program, imported by")
TARGETS = ("target = source", 'target = AutoTokenizer.from_pretrained(name, subfolder="target")')


def check(model: Model) -> None:
    """Raises ValueError, naming the option, if `transformers` cannot represent the model."""
    spec = check_products(model, "Hugging Face")
    check_is_untagged(model, "Hugging Face")
    if isinstance(model.source, MosesBpe) or isinstance(model.target, MosesBpe):
        fault = "its subwords are those of a model of fairseq, which no tokenizer there splits"
        raise refusal("Hugging Face", fault, "export it with `--to ctranslate2`")
    mixer, cross = attentions_of(spec)
    for name, attention in (("mixer", mixer), ("cross", cross)):
        if attention.heads * attention.d_k != spec.d_model or attention.d_k != attention.d_v:
            raise refusal(
                "Hugging Face",
                f"`model.{name}` has {attention.heads} heads with d_k {attention.d_k} and d_v {attention.d_v}, and "
                f"there both are d_model / heads, here {spec.d_model} / heads",
            )
    if mixer.heads != cross.heads:
        fault = f"`model.mixer.heads` is {mixer.heads} and `model.cross.heads` {cross.heads}; there both are one"
        raise refusal("Hugging Face", fault)


def write(model: Model, folder: Path, precision: str) -> None:
    """Writes the model, its tokenizers and a model card to `folder`.

    `AutoModelForSeq2SeqLM` and `AutoTokenizer` can load them.
    """
    spec, tables = model.config.model, position_tables(model)
    assert isinstance(spec, Transformer)
    order: Order = AS_THEY_ARE
    if spec.positions == Sinusoidal(layout="interleaved"):
        order = np.r_[0 : spec.d_model : 2, 1 : spec.d_model : 2]  # sin | cos
        tables = tables[0][:, order].copy(), tables[1][:, order].copy()
    weights = transformer_weights(model, order)
    matrices = [weights.tensors[f"{name}.weight"] for name in ("source_embedding", "target_embedding", "readout")]
    size = max(map(len, matrices))
    # Copies, zero-padded to as many rows as the larger vocabulary has.
    source, target, readout = (np.pad(matrix, ((0, size - len(matrix)), (0, 0))) for matrix in matrices)
    bias = np.full((1, size), IMPOSSIBLE, np.float32)
    bias[0, : len(matrices[2])] = weights.bias_or_zeros("readout")
    arrays = {"final_logits_bias": bias, **dict(named_layers(weights, foreign_format("hugging_face").layers))}
    if has_one_matrix(spec) or spec.norm == "pre":
        arrays["model.shared.weight"] = source
    if not has_one_matrix(spec):
        if spec.first_input == "zeros":
            target[spec.symbols.begin] = 0
        arrays["model.encoder.embed_tokens.weight"] = source.copy()
        arrays["model.decoder.embed_tokens.weight"] = target
        arrays["lm_head.weight"] = readout
    # Marian's class computes its own tables of sinusoids.
    computes_tables = spec.norm == "post" and spec.positions in SINUSOIDS
    if not computes_tables:
        arrays["model.encoder.embed_positions.weight"], arrays["model.decoder.embed_positions.weight"] = tables
    write_tensors({name: torch.from_numpy(array) for name, array in arrays.items()}, folder / "model.safetensors")
    write_json(folder / "config.json", hugging_face_config(model))
    write_json(folder / "generation_config.json", generation_config(model))
    write_tokenizers(model, folder, len(position_tables(model)[0]))
    limits = ""
    if not computes_tables and spec.norm == "post":
        limits = (
            "`save_pretrained` of this class leaves out the table of positions: keep this folder, because a copy that\n"
            "is saved from the loaded model is another model.\n\n"
        )
    if spec.norm == "pre" and not has_one_matrix(spec):
        limits = "The model needs transformers 5 or newer; 4.57 fails.\n\n"
    config = model.config
    languages = [code for code in (config.source_language, config.target_language) if code]
    card = CARD.read_text("utf-8").format(
        # Quoted, because YAML reads `no`, Norwegian, as False.
        languages=f"language: {json.dumps(languages)}\n" if languages else "",
        origin=ORIGINS[config.weights.kind == "imported"],
        title=f"{config.source_language or 'source'} → {config.target_language or 'target'}",
        d_model=config.model.d_model,
        limits=limits,
        target=TARGETS[not share_subwords((model.source, model.target)) and isinstance(model.source, Subwords)],
    )
    (folder / "README.md").write_text(card, "utf-8", newline="\n")


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Writes settings as JSON with only ASCII characters."""
    path.write_text(json.dumps(values, indent=2) + "\n", "utf-8", newline="\n")


def has_one_matrix(spec: Transformer) -> bool:
    """Returns whether one matrix serves as the embedding of both sides and as the projection before the softmax."""
    return spec.embeddings == "shared" and isinstance(spec.readout, Tied) and spec.first_input == "symbol"


def hugging_face_config(model: Model) -> dict[str, Any]:
    """Returns the content of `config.json`."""
    spec, vocabulary = model.config.model, model.config.vocabulary
    assert isinstance(spec, Transformer)
    assert isinstance(spec.feed_forward, FeedForward)
    size = max(vocabulary.source, vocabulary.target)
    kind, architecture = CLASSES[spec.norm]
    return foreign_format("hugging_face").settings_of(spec) | {
        "architectures": [architecture],
        "model_type": kind,
        "vocab_size": size,
        "decoder_vocab_size": size,
        "activation_function": spec.feed_forward.activation,
        "dropout": spec.dropout,
        "attention_dropout": spec.cross.dropout,
        "activation_dropout": spec.feed_forward.dropout,
        "max_position_embeddings": len(position_tables(model)[0]),
        "share_encoder_decoder_embeddings": has_one_matrix(spec),
        "tie_word_embeddings": has_one_matrix(spec),
        **_symbol_ids(spec.symbols),
    }


def generation_config(model: Model) -> dict[str, Any]:
    """Returns the content of `generation_config.json`, which contains the search settings of the model.

    `length_penalty` is the exponent that comes closest to the length penalty of the model.
    """
    symbols, decoding = model.config.model.symbols, model.config.decoding
    return {
        "num_beams": decoding.beam,
        "length_penalty": length_power(decoding.length_penalty),
        "max_length": min(512, len(position_tables(model)[0])),
        "min_new_tokens": 1,  # `SearchRules.banned_first`
        "suppress_tokens": list(SearchRules.of(symbols, model.target).banned),
        **_symbol_ids(symbols),
    }


def _symbol_ids(symbols: Symbols) -> dict[str, int]:
    return {
        "pad_token_id": symbols.pad,
        "bos_token_id": symbols.begin,
        "eos_token_id": symbols.end,
        "decoder_start_token_id": symbols.begin,
    }


def write_tokenizers(model: Model, folder: Path, max_length: int) -> None:
    """Writes the source tokenizer to `folder` and, if it differs, the target tokenizer to a subfolder.

    A model with SentencePiece subwords gets a single `MarianTokenizer` for both sides.
    """
    if isinstance(model.source, SentencePieces) and isinstance(model.target, SentencePieces):
        languages = {"source_lang": model.config.source_language, "target_lang": model.config.target_language}
        separate = model.source.vocabulary != model.target.vocabulary
        for side, model_file, vocabulary_file in (
            (model.source, SPM_FILES[0], "vocab.json"),
            (model.target, SPM_FILES[1], "target_vocab.json" if separate else "vocab.json"),
        ):
            (folder / model_file).write_bytes(side.model_file)
            pieces = [*MARIAN_SYMBOLS, *side.vocabulary[len(MARIAN_SYMBOLS) :]]
            ids = json.dumps({piece: token for token, piece in enumerate(pieces)}, ensure_ascii=False, indent=1)
            (folder / vocabulary_file).write_text(ids + "\n", "utf-8", newline="\n")
        config = {
            "tokenizer_class": "MarianTokenizer",
            "separate_vocabs": separate,
            "model_max_length": max_length,
            **{key: language for key, language in languages.items() if language is not None},
            "unk_token": model.source.vocabulary[model.source.content.unknown],
            "pad_token": MARIAN_SYMBOLS[0],
            "eos_token": MARIAN_SYMBOLS[2],
            "split_special_tokens": True,
        }
        write_json(folder / "tokenizer_config.json", config)
        return
    _write_tokenizer(model, model.source, folder, max_length)
    if not share_subwords((model.source, model.target)):
        _write_tokenizer(model, model.target, folder / TARGET_FOLDER, max_length)


def _write_tokenizer(model: Model, side: TokenVocabulary, folder: Path, max_length: int) -> None:
    """Writes `tokenizer.json`, which appends EOS to a text, and `tokenizer_config.json`, which names the symbols."""
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
        # Text that is spelt like a symbol is tokenised as ordinary text.
        "split_special_tokens": True,
    }
    folder.mkdir(exist_ok=True)
    for name, values in (("tokenizer.json", tokenizer), ("tokenizer_config.json", config)):
        (folder / name).write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", "utf-8", newline="\n")


class HuggingFaceEngine:
    """Runs the model and the tokenizers of an exported folder with `transformers`."""

    def __init__(self, folder: Path) -> None:
        """Loads the model and the tokenizers; raises ValueError if `transformers` is not installed."""
        transformers = import_engine("transformers", "Hugging Face's transformers", "hugging-face")
        self._model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        self._source = self._target = transformers.AutoTokenizer.from_pretrained(folder)
        if (folder / TARGET_FOLDER).is_dir():
            self._target = transformers.AutoTokenizer.from_pretrained(folder / TARGET_FOLDER)

    @torch.inference_mode()
    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[NDArray[np.float64]]:
        """Returns the log-probability of each token of each target, including EOS."""
        scores = []
        for source, target in zip(sources, targets, strict=True):
            labels = self._target(text_target=target, return_tensors="pt").input_ids
            begin = torch.tensor([[self._model.config.decoder_start_token_id]])
            inputs = self._source(source, return_tensors="pt")
            logits = self._model(
                input_ids=inputs.input_ids,
                attention_mask=inputs.attention_mask,
                decoder_input_ids=torch.cat([begin, labels[:, :-1]], dim=1),
            ).logits
            of_tokens = logits.log_softmax(-1).gather(2, labels.unsqueeze(2))
            scores.append(of_tokens.flatten().double().numpy())
        return scores

    @torch.inference_mode()
    def translate(self, lines: Sequence[str], bounds: Sequence[int]) -> list[EngineTranslation]:
        """Translates each line with greedy search.

        `bounds` contains the largest number of tokens for each translation. Longer translations are truncated.
        """
        translations: list[EngineTranslation] = []
        end = self._model.config.eos_token_id
        for first in range(0, len(lines), LINES_AT_ONCE):
            batch = slice(first, first + LINES_AT_ONCE)
            inputs = self._source(list(lines[batch]), return_tensors="pt", padding=True)
            output = self._model.generate(
                input_ids=inputs.input_ids,
                attention_mask=inputs.attention_mask,
                num_beams=1,
                do_sample=False,
                max_length=None,
                max_new_tokens=max(bounds[batch]),
            )
            # The first token is BOS.
            rows = [row[1 : bound + 1] for row, bound in zip(output.tolist(), bounds[batch], strict=True)]
            rows = [row[: row.index(end)] if end in row else row for row in rows]
            texts = map(one_line, self._target.batch_decode(rows, skip_special_tokens=True))
            translations += map(EngineTranslation, texts, rows)
        return translations
