"""Models as ONNX graphs, with the names that onnxruntime's users, `optimum` and transformers.js expect."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from transduce.exchange.hugging_face_config import generation_config, hugging_face_config
from transduce.exchange.hugging_face_tokenizer import write_tokenizers
from transduce.exchange.representable import check_is_transformer, check_is_untagged, refusal
from transduce.model import Transformer, TransformerModel
from transduce.model.attention import AttentionSpec
from transduce.text.subwords import Subwords

if TYPE_CHECKING:
    from transduce.exchange.onnx_engine import OnnxEngine
    from transduce.model_directory import Model

__all__ = [
    "CONFIG",
    "GENERATION_CONFIG",
    "GRAPHS",
    "MAX_POSITIONS",
    "SUFFIXES",
    "check",
    "graph_files",
    "open_engine",
    "write",
    "write_graphs",
]

MAX_POSITIONS = None  # of a sentence: the graph computes sinusoids for any length
UNBOUNDED = 1_000_000  # positions named in `config.json`, which has no word for "any number"

CONFIG, GENERATION_CONFIG = "config.json", "generation_config.json"
GRAPHS = "onnx"  # the folder of the graphs, in which transformers.js looks for them
SUFFIXES = {"float32": "", "float16": "_fp16", "int8": "_quantized"}
"""What follows the name of a graph, by the precision of its weights, as transformers.js expects."""


def check(model: "Model") -> None:
    """Raises ValueError where the graphs cannot represent the model, with the option."""
    check_is_transformer(model, "ONNX")
    if not isinstance(model.source, Subwords) or not isinstance(model.target, Subwords):
        raise refusal(
            "ONNX", "its subwords are those of the model that it was imported from, which have no tokenizer.json"
        )
    check_is_untagged(model, "ONNX")


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
    for name, values in ((CONFIG, _config(model)), (GENERATION_CONFIG, _generation_config(model))):
        (folder / name).write_text(json.dumps(values, indent=2) + "\n", "utf-8", newline="\n")
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

    They need a name of a model that has such graphs, which is Marian, pre-norm or not.
    """
    spec, vocabulary = model.config.model, model.config.vocabulary
    assert isinstance(spec, Transformer)
    assert isinstance(spec.mixer, AttentionSpec)
    return hugging_face_config(model) | {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "vocab_size": vocabulary.source,
        "decoder_vocab_size": vocabulary.target,
        "encoder_attention_heads": spec.cross.heads,  # of the cache of the source
        "decoder_attention_heads": spec.mixer.heads,
        "max_position_embeddings": _positions(model),
    }


def _generation_config(model: "Model") -> dict[str, Any]:
    """Returns the content of `generation_config.json`; transformers.js knows banned tokens by another name."""
    values = generation_config(model)
    return values | {"bad_words_ids": [[token] for token in values.pop("suppress_tokens")]}
