"""Models of other programs with random weights, written as those programs write them, and their subwords."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sentencepiece")
pytest.importorskip("transformers")

import sentencepiece
import torch
from torch import nn
from transformers import MarianConfig, MarianMTModel

ENGLISH = [
    f"the {size} {animal} {verb} a {thing}, and it is well-known."
    for size in ("small", "big", "old")
    for animal in ("cat", "dog", "newt", "owl")
    for verb in ("sees", "eats", "likes")
    for thing in ("fish", "house", "tree", "bee")
]
GERMAN = [
    f"der {size} {animal} {verb} einen {thing}, und das weiß man."
    for size in ("kleine", "große", "alte")
    for animal in ("Kater", "Hund", "Molch", "Kauz")
    for verb in ("sieht", "frisst", "mag")
    for thing in ("Fisch", "Baum", "Käfer", "Stein")
]

ODD = [
    "",
    " ",
    "the cat",
    "  two  spaces , here ",
    "the cat 你好 likes ﷺ",
    "İ ﬁ ½ \u200b zero\u00a0width",
    "</s> <unk> <pad> ▁the",
    "\u2581 @@ & < > \" ' |",
    "\U0001f468\u200d\U0001f469 e\u0301 \u202e\x07",
    "tab\there",
    "x" * 300,
]


def train_sentence_piece(lines: list[str], size: int, kind: str = "unigram", **options: Any) -> bytes:
    """Returns a SentencePiece model learned from `lines`, of at most `size` pieces."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=size,
        model_type=kind,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def pieces(model: bytes) -> list[str]:
    """Returns the pieces of a SentencePiece model."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(number) for number in range(processor.get_piece_size())]


def add_noise(module: nn.Module, *, but: str = "no tensor") -> None:
    """Makes biases differ from 0 and gains from 1, and logits large enough to differ; `but` names what stays."""
    torch.manual_seed(3)
    with torch.no_grad():
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if but not in name:
                tensor.add_(torch.randn_like(tensor), alpha=0.3)


def write_opus_mt(directory: Path, *, kind: str = "unigram", separate: bool = False, **changes: Any) -> MarianMTModel:
    """Writes a model of OPUS-MT's shape, whose vocabulary is not in the order of either SentencePiece model."""
    directory.mkdir(parents=True)
    models = train_sentence_piece(ENGLISH, 60, kind), train_sentence_piece(GERMAN, 70, kind)
    for name, model in zip(("source.spm", "target.spm"), models, strict=True):
        (directory / name).write_bytes(model)
    control = ("<s>", "</s>", "<unk>")
    vocabularies = []
    for sides in ([models[0]], [models[1]]) if separate else (models,):
        tokens = dict.fromkeys(piece for side in sides for piece in pieces(side) if piece not in control)
        listed = ["</s>", "<unk>", *sorted(tokens, key=lambda piece: (len(piece), piece)), ">>deu<<"]
        listed.insert(5 if separate else len(listed), "<pad>")  # transformers needs one id for both sides
        vocabularies.append({token: row for row, token in enumerate(listed)})
    for name, ids in zip(("vocab.json", "target_vocab.json"), vocabularies):
        (directory / name).write_text(json.dumps(ids), "utf-8")
    target = vocabularies[-1]
    settings = {
        "vocab_size": len(vocabularies[0]),
        "decoder_vocab_size": len(target),
        "share_encoder_decoder_embeddings": not separate,
        "d_model": 24,
        "encoder_layers": 2,
        "decoder_layers": 3,
        "encoder_ffn_dim": 40,
        "decoder_ffn_dim": 40,
        "encoder_attention_heads": 3,
        "decoder_attention_heads": 3,
        "activation_function": "swish",
        "scale_embedding": True,
        "max_position_embeddings": 400,
        "decoder_start_token_id": target["<pad>"],
        "pad_token_id": target["<pad>"],
        "eos_token_id": 0,
        "forced_eos_token_id": None,
        **changes,
    }
    torch.manual_seed(1)
    model = MarianMTModel(MarianConfig(**settings)).eval()
    add_noise(model, but="embed_positions")
    model.save_pretrained(directory)
    (directory / "tokenizer_config.json").write_text(
        json.dumps({"source_lang": "eng", "target_lang": "deu", "separate_vocabs": separate}), "utf-8"
    )
    return model
