"""Exports models to ONNX graphs, with the names that users of onnxruntime, `optimum` and transformers.js expect.

For the parity check, the graphs are run with onnxruntime and a greedy search in NumPy, as in a program without torch.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
from numpy.typing import NDArray

from transduce.exchange import hugging_face_format
from transduce.exchange.engine_limits import check_is_transformer, check_is_untagged, refusal
from transduce.exchange.hugging_face_format import TARGET_FOLDER, write_json
from transduce.exchange.parity import EngineTranslation, import_engine
from transduce.model.attention import AttentionSpec
from transduce.model.transformer import Transformer, TransformerModel
from transduce.model_directory.model import Model
from transduce.text.subwords import Subwords
from transduce.translation.results import one_line

UNBOUNDED = 1_000_000  # the number of positions in `config.json` for a model without a limit

CONFIG, GENERATION_CONFIG = "config.json", "generation_config.json"
GRAPHS = "onnx"  # folder of the graphs, where transformers.js looks for them
SUFFIXES = {"float32": "", "float16": "_fp16", "int8": "_quantized"}
"""The suffix that transformers.js expects in the file name of a graph, by the precision of the weights."""


NUMBERS_AT_ONCE = 1 << 24
"""The largest number of logits in a batch, including those for padding."""

Tokens = NDArray[np.int64]


def check(model: Model) -> None:
    """Raises ValueError, with the reason, if the model cannot be exported to ONNX."""
    check_is_transformer(model, "ONNX")
    if not isinstance(model.source, Subwords) or not isinstance(model.target, Subwords):
        raise refusal(
            "ONNX", "its subwords are SentencePiece or those of fairseq, which have no tokenizer.json of `tokenizers`"
        )
    check_is_untagged(model, "ONNX")


def graph_files(precision: str) -> tuple[str, str]:
    """Returns the file names of the encoder and the decoder."""
    suffix = SUFFIXES[precision]
    return f"encoder_model{suffix}.onnx", f"decoder_model_merged{suffix}.onnx"


def write(model: Model, folder: Path, precision: str) -> None:
    """Writes the graphs, `config.json`, `generation_config.json` and the tokenizers to `folder`.

    Raises ValueError if `onnx` is not installed.
    """
    import_engine("onnx", "ONNX", "onnx")  # raises if it is missing, before `onnx_graphs` imports it
    from transduce.exchange.onnx_graphs import decoder_graph, encoder_graph

    assert isinstance(model.module, TransformerModel)
    (folder / GRAPHS).mkdir(exist_ok=True)
    for name, graph in zip(graph_files(precision), (encoder_graph, decoder_graph), strict=True):
        (folder / GRAPHS / name).write_bytes(graph(model.module, precision))
    # transformers.js uses a different name for banned tokens.
    generation = hugging_face_format.generation_config(model)
    generation["bad_words_ids"] = [[token] for token in generation.pop("suppress_tokens")]
    spec, vocabulary = model.config.model, model.config.vocabulary
    assert isinstance(spec, Transformer)
    assert isinstance(spec.mixer, AttentionSpec)
    max_positions = model.module.max_positions or UNBOUNDED
    # Programs read these settings before they run the graphs, and the settings must name an architecture that they
    # know. The graphs of Marian models have the same form.
    config = hugging_face_format.hugging_face_config(model) | {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "vocab_size": vocabulary.source,
        "decoder_vocab_size": vocabulary.target,
        "encoder_attention_heads": spec.cross.heads,  # the number of heads in the cache of the source
        "decoder_attention_heads": spec.mixer.heads,
        "max_position_embeddings": max_positions,
    }
    write_json(folder / CONFIG, config)
    write_json(folder / GENERATION_CONFIG, generation)
    hugging_face_format.write_tokenizers(model, folder, max_positions)


class OnnxEngine:
    """Runs the graphs of an exported folder with onnxruntime and the exported tokenizers."""

    def __init__(self, folder: Path) -> None:
        """Loads the graphs and the tokenizers; raises ValueError if onnxruntime is not installed."""
        onnxruntime = import_engine("onnxruntime", "onnxruntime", "onnx")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        self._encoder, self._decoder = (
            onnxruntime.InferenceSession(next((folder / GRAPHS).glob(f"{name}*.onnx")), options)
            for name in ("encoder_model", "decoder_model_merged")
        )
        self._names = [output.name for output in self._decoder.get_outputs()]
        self._source = self._target = _tokenizer(folder)
        if (folder / TARGET_FOLDER).exists():
            self._target = _tokenizer(folder / TARGET_FOLDER)
        config, generation = (json.loads((folder / name).read_text("utf-8")) for name in (CONFIG, GENERATION_CONFIG))
        self._pad, self._begin, self._end = (config[f"{name}_token_id"] for name in ("pad", "bos", "eos"))
        self._banned = [token for (token,) in generation["bad_words_ids"]]
        self._min_tokens = generation["min_new_tokens"]
        self._vocabulary = config["decoder_vocab_size"]

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[NDArray[np.float64]]:
        """Returns the log-probability of each token of each target, including EOS."""
        rows = _encode(self._source, sources), _encode(self._target, targets)
        scores: list[NDArray[np.float64]] = [np.empty(0) for _ in sources]
        for indices in self._batches([max(map(len, pair)) for pair in zip(*rows, strict=True)]):
            source, target = (self._padded([side[index] for index in indices]) for side in rows)
            shifted = np.concatenate([np.full_like(target[:, :1], self._begin), target[:, :-1]], axis=1)
            logits, _ = self._decode(shifted, self._start(source))
            scaled = logits.astype(np.float64) - logits.max(-1, keepdims=True)
            log_softmax = scaled - np.log(np.exp(scaled).sum(-1, keepdims=True))
            chosen = np.take_along_axis(log_softmax, target[:, :, None], 2)[:, :, 0]
            for index, row in zip(indices, chosen, strict=True):
                scores[index] = row[: len(rows[1][index])]
        return scores

    def translate(self, lines: Sequence[str], bounds: Sequence[int]) -> list[EngineTranslation]:
        """Translates each line with greedy search.

        `bounds` contains the largest number of tokens for each translation.
        """
        rows, translations = _encode(self._source, lines), [EngineTranslation("", [])] * len(lines)
        for indices in self._batches([len(row) + bound for row, bound in zip(rows, bounds, strict=True)]):
            source = self._padded([rows[index] for index in indices])
            translated = self._search(source, np.array([bounds[index] for index in indices]))
            decoded = self._target.decode_batch(translated, skip_special_tokens=True)
            for index, tokens, text in zip(indices, translated, decoded, strict=True):
                translations[index] = EngineTranslation(one_line(text), tokens)
        return translations

    def _search(self, source: Tokens, bounds: Tokens) -> list[list[int]]:
        """Returns the greedy translation of each row, truncated at its bound and before EOS."""
        state, tokens = self._start(source), [np.full(len(source), self._begin)]
        has_ended = np.zeros(len(source), bool)
        while not has_ended.all():
            logits, state = self._decode(tokens[-1][:, None], state)
            logits[:, :, self._banned] = -np.inf
            if len(tokens) <= self._min_tokens:
                logits[:, :, self._end] = -np.inf
            tokens.append(logits[:, -1].argmax(-1))
            has_ended |= (tokens[-1] == self._end) | (len(tokens) > bounds)
        rows = np.stack(tokens[1:], axis=1).tolist()
        cut = [row[:bound] for row, bound in zip(rows, bounds.tolist(), strict=True)]
        return [row[: row.index(self._end)] if self._end in row else row for row in cut]

    def _start(self, source: Tokens) -> dict[str, NDArray[Any]]:
        """Returns the inputs of the decoder for the first step: the output of the encoder, and an empty cache."""
        mask = (source != self._pad).astype(np.int64)
        (encoded,) = self._encoder.run(None, {"input_ids": source, "attention_mask": mask})
        state = {"encoder_hidden_states": encoded, "encoder_attention_mask": mask}
        for cache in self._decoder.get_inputs():
            if cache.name.startswith("past_key_values."):
                _, heads, _, width = (size if isinstance(size, int) else 1 for size in cache.shape)
                state[cache.name] = np.zeros((len(source), heads, 0, width), np.float32)
        return state

    def _decode(
        self, tokens: Tokens, state: dict[str, NDArray[Any]]
    ) -> tuple[NDArray[np.float32], dict[str, NDArray[Any]]]:
        """Runs the decoder on the new tokens [rows new].

        Returns the logits [rows new vocabulary], and the inputs of the decoder for the next step.
        """
        outputs = dict(zip(self._names, self._decoder.run(None, {**state, "input_ids": tokens}), strict=True))
        logits = outputs.pop("logits")
        return logits, state | {name.replace("present", "past_key_values"): cache for name, cache in outputs.items()}

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Groups sentences of similar length into batches of limited size, and yields the indices in each batch."""
        batch: list[int] = []
        for index in np.argsort(lengths, kind="stable").tolist():
            if batch and (len(batch) + 1) * lengths[index] * self._vocabulary > NUMBERS_AT_ONCE:
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch

    def _padded(self, rows: Sequence[list[int]]) -> Tokens:
        """Pads rows of tokens to the length of the longest row."""
        padded = np.full((len(rows), max(map(len, rows))), self._pad)
        for index, row in enumerate(rows):
            padded[index, : len(row)] = row
        return padded


def _tokenizer(folder: Path) -> tokenizers.Tokenizer:
    """Loads the tokenizer in a folder. Text that is spelt like a symbol is encoded as ordinary text."""
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    return tokenizer


def _encode(tokenizer: tokenizers.Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Returns the token ids of each text, including EOS."""
    return [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]
