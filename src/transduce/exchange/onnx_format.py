"""Models as ONNX graphs, with the names that onnxruntime's users, `optimum` and transformers.js expect."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from transduce.exchange.hugging_face_tokenizer import write_tokenizers
from transduce.model import FeedForward, Transformer, TransformerModel
from transduce.model.attention import AttentionSpec

if TYPE_CHECKING:
    from transduce.exchange.onnx_engine import OnnxEngine
    from transduce.model_directory import Model

__all__ = ["GRAPHS", "MAX_POSITIONS", "SUFFIXES", "check", "graph_files", "open_engine", "write", "write_graphs"]

MAX_POSITIONS = None  # of a sentence: the graph computes sinusoids for any length
UNBOUNDED = 1_000_000  # positions named in `config.json`, which has no word for "any number"

GRAPHS = "onnx"  # the folder of the graphs, in which transformers.js looks for them
SUFFIXES = {"float32": "", "float16": "_fp16", "int8": "_quantized"}
"""What follows the name of a graph, by the precision of its weights, as transformers.js expects."""


def check(model: "Model") -> None:
    """Raises ValueError where the graphs cannot represent the model, with the option."""
    spec, fault = model.config.model, None
    if model.config.linearisation is not None:
        fault = "it is a parser, whose search is constrained to trees"
    elif not isinstance(spec, Transformer):
        fault = f"`model.kind` is {spec.kind}"
    elif not isinstance(spec.mixer, AttentionSpec):
        fault = f"`model.mixer.kind` is {spec.mixer.kind}"
    elif not isinstance(spec.feed_forward, FeedForward):
        fault = f"`model.feed_forward.kind` is {spec.feed_forward.kind}"
    elif spec.next_word:
        fault = "`model.next_word` is true"
    if fault is not None:
        raise ValueError(f"ONNX cannot represent this model: {fault}; translate with it here, or train another")


def graph_files(precision: str) -> tuple[str, str]:
    """Returns the names of the encoder's and the decoder's file."""
    suffix = SUFFIXES[precision]
    return f"encoder_model{suffix}.onnx", f"decoder_model_merged{suffix}.onnx"


def write_graphs(model: "Model", folder: Path, precision: str) -> None:
    """Writes the two graphs into `folder`; raises ValueError where `onnx` is not installed."""
    try:
        import onnx  # noqa: F401 - the modules below import it
    except ImportError:
        raise ValueError("ONNX is not installed: `pip install 'transduce[onnx]'`") from None
    from transduce.exchange.onnx_graphs import decoder_graph, encoder_graph
    from transduce.exchange.onnx_weights import weights_in

    assert isinstance(model.module, TransformerModel)
    folder.mkdir(exist_ok=True)
    for name, graph in zip(graph_files(precision), (encoder_graph, decoder_graph), strict=True):
        (folder / name).write_bytes(graph(model.module, weights_in(precision)))


def write(model: "Model", folder: Path, precision: str) -> None:
    """Writes the graphs, `config.json`, `generation_config.json` and the tokenizer."""
    write_graphs(model, folder / GRAPHS, precision)
    for name, values in (("config.json", _config(model)), ("generation_config.json", _generation_config(model))):
        (folder / name).write_text(json.dumps(values, indent=2) + "\n", "utf-8")
    write_tokenizers(model, folder, _positions(model))


def open_engine(folder: Path, model: "Model") -> "OnnxEngine":
    """Returns the engine with the model that `write` has put into `folder`."""
    from transduce.exchange.onnx_engine import OnnxEngine

    return OnnxEngine(folder, torch.get_num_threads())


def _positions(model: "Model") -> int:
    """Returns the most positions of a sentence."""
    return model.module.max_positions or UNBOUNDED


def _config(model: "Model") -> dict[str, Any]:
    """Returns the content of `config.json`: what other engines ask before they run the graphs.

    They need a name of a model with such graphs, which is Marian, pre-norm or not.
    """
    spec, vocabulary = model.config.model, model.config.vocabulary
    assert isinstance(spec, Transformer)
    assert isinstance(spec.feed_forward, FeedForward)
    assert isinstance(spec.mixer, AttentionSpec)
    symbols = spec.symbols
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "vocab_size": vocabulary.source,
        "decoder_vocab_size": vocabulary.target,
        "share_encoder_decoder_embeddings": spec.embeddings == "shared",
        "d_model": spec.d_model,
        "encoder_layers": spec.encoder_layers,
        "encoder_attention_heads": spec.cross.heads,
        "encoder_ffn_dim": spec.feed_forward.d_ff,
        "decoder_layers": spec.decoder_layers,
        "decoder_attention_heads": spec.mixer.heads,
        "decoder_ffn_dim": spec.feed_forward.d_ff,
        "activation_function": spec.feed_forward.activation,
        "max_position_embeddings": _positions(model),
        "scale_embedding": True,
        "is_encoder_decoder": True,
        "pad_token_id": symbols.pad,
        "bos_token_id": symbols.begin,
        "eos_token_id": symbols.end,
        "decoder_start_token_id": symbols.begin,
        "forced_eos_token_id": None,
    }


def _generation_config(model: "Model") -> dict[str, Any]:
    """Returns the content of `generation_config.json`: the search of the model, with Hugging Face's length penalty."""
    symbols, decoding = model.config.model.symbols, model.config.decoding
    return {
        "num_beams": decoding.beam,
        "length_penalty": decoding.length_penalty,  # there log p / length^α
        "max_length": 512,
        "bad_words_ids": [[token] for token in sorted({symbols.pad, symbols.begin} - {symbols.end})],
        "pad_token_id": symbols.pad,
        "bos_token_id": symbols.begin,
        "eos_token_id": symbols.end,
        "decoder_start_token_id": symbols.begin,
    }
