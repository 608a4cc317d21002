"""Checkpoints of fairseq's shape with random weights, and BPE as subword-nmt learns and applies it."""

import argparse
from collections import Counter, OrderedDict
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from foreign_models import ENGLISH, GERMAN
from sacremoses import MosesTokenizer
from torch import Tensor, nn

Merges = list[tuple[str, str]]

SETTINGS: dict[str, Any] = {
    "arch": "transformer_iwslt_de_en",
    "activation_fn": "relu",
    "encoder_embed_dim": 24,
    "decoder_embed_dim": 24,
    "decoder_output_dim": 24,
    "encoder_ffn_embed_dim": 40,
    "decoder_ffn_embed_dim": 40,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_normalize_before": False,
    "decoder_normalize_before": False,
    "share_all_embeddings": False,
    "share_decoder_input_output_embed": False,
    "encoder_learned_pos": False,
    "decoder_learned_pos": False,
    "dropout": 0.1,
    "attention_dropout": 0.2,
    "relu_dropout": 0.3,
    "source_lang": "en",
    "target_lang": "de",
    "adaptive_softmax_cutoff": None,
    "max_source_positions": 1024,
}


def moses(lines: Iterable[str], language: str) -> list[str]:
    """Returns lines as fairseq's `moses` tokeniser splits them."""
    tokenise = MosesTokenizer(language).tokenize
    return [tokenise(line, aggressive_dash_splits=True, return_str=True) for line in lines]


def letters_of(word: str) -> list[str]:
    return [*word[:-1], f"{word[-1]}</w>"]


def join_pairs(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    """Joins every occurrence of a pair, from the left."""
    joined: list[str] = []
    for symbol in symbols:
        if joined and (joined[-1], symbol) == pair:
            joined[-1] += symbol
        else:
            joined.append(symbol)
    return joined


def learn_merges(lines: Iterable[str], count: int) -> Merges:
    """Learns the merges of the most frequent pairs, as subword-nmt."""
    words = Counter(word for line in lines for word in line.split())
    split, merges = {word: letters_of(word) for word in words}, []
    for _ in range(count):
        pairs = Counter[tuple[str, str]]()
        for word, symbols in split.items():
            for pair in pairwise(symbols):
                pairs[pair] += words[word]
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        split = {word: join_pairs(symbols, best) for word, symbols in split.items()}
    return merges


def apply_merges(line: str, merges: Merges) -> list[str]:
    """Returns the subwords of a tokenised line as subword-nmt's `apply_bpe` writes them."""
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    subwords: list[str] = []
    for word in line.split(" ") if line else []:
        symbols = letters_of(word)
        while known := [pair for pair in pairwise(symbols) if pair in ranks]:
            symbols = join_pairs(symbols, min(known, key=ranks.__getitem__))
        subwords += [f"{symbol}@@" for symbol in symbols[:-1]] + [symbols[-1].removesuffix("</w>")]
    return subwords


def write_text_files(directory: Path, *, shared: bool) -> Merges:
    """Writes `bpecodes`, with counts as fastBPE, and the dictionaries of both languages; returns the merges."""
    directory.mkdir(parents=True)
    tokenised = {"en": moses(ENGLISH, "en"), "de": moses(GERMAN, "de")}
    merges = learn_merges([*tokenised["en"], *tokenised["de"]], 40)
    codes = "".join(f"{left} {right} {1000 - rank}\n" for rank, (left, right) in enumerate(merges))
    (directory / "bpecodes").write_text(codes, "utf-8")
    counts = {
        language: Counter(subword for line in lines for subword in apply_merges(line, merges))
        for language, lines in tokenised.items()
    }
    if shared:
        counts = dict.fromkeys(counts, counts["en"] + counts["de"])
    for language, counted in counts.items():
        lines = [f"{subword} {count}\n" for subword, count in counted.most_common()]
        (directory / f"dict.{language}.txt").write_text("".join(lines), "utf-8")
    return merges


def dictionary(path: Path) -> list[str]:
    """Returns the tokens of a dictionary by id."""
    lines = path.read_text("utf-8").splitlines()
    return ["<s>", "<pad>", "</s>", "<unk>", *(line.split(" ")[0] for line in lines)]


def save_checkpoint(path: Path, tensors: dict[str, Tensor], settings: dict[str, Any]) -> None:
    """Writes a checkpoint as fairseq did before it had `cfg`."""
    extra = {f"{side}.version": torch.tensor([3.0]) for side in ("encoder", "decoder")}
    extra |= {f"{side}.embed_positions._float_tensor": torch.zeros(1) for side in ("encoder", "decoder")}
    if settings["encoder_learned_pos"]:
        extra = {}
    content = {
        "args": argparse.Namespace(**settings),
        "model": OrderedDict({**tensors, **extra}),
        "optimizer_history": [{"num_updates": 3, "best_loss": 2.5, "lr_scheduler_state": {"best": None}}],
        "extra_state": {"epoch": 2, "val_loss": 2.5},
    }
    torch.save(content, path)


class TorchTransformer(nn.Module):
    """fairseq's model built of torch's own layers, which know pre-norm and post-norm."""

    def __init__(self, settings: dict[str, Any], source: int, target: int) -> None:
        super().__init__()
        width, heads, d_ff = (
            settings[name] for name in ("encoder_embed_dim", "encoder_attention_heads", "encoder_ffn_embed_dim")
        )
        pre = settings["encoder_normalize_before"]
        self.scale = width**0.5
        options: dict[str, Any] = {"batch_first": True, "norm_first": pre, "activation": settings["activation_fn"]}
        encoder_layer = nn.TransformerEncoderLayer(width, heads, d_ff, 0.0, **options)
        decoder_layer = nn.TransformerDecoderLayer(width, heads, d_ff, 0.0, **options)
        norms = (nn.LayerNorm(width), nn.LayerNorm(width)) if pre else (None, None)
        self.encoder = nn.TransformerEncoder(encoder_layer, settings["encoder_layers"], norms[0], False)
        self.decoder = nn.TransformerDecoder(decoder_layer, settings["decoder_layers"], norms[1])
        self.source, self.target = nn.Embedding(source, width), nn.Embedding(target, width)
        self.output = nn.Linear(width, target, bias=False)
        self.source_positions, self.target_positions = nn.Embedding(90, width), nn.Embedding(80, width)

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Returns log-probabilities; positions count from 2, and 1 is padding."""
        hidden = source == 1
        states = self.source(source) * self.scale + self.source_positions(torch.arange(source.shape[1]) + 2)
        memory = self.encoder(states, src_key_padding_mask=hidden)
        length = target_in.shape[1]
        states = self.target(target_in) * self.scale + self.target_positions(torch.arange(length) + 2)
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        decoded = self.decoder(states, memory, mask, memory_key_padding_mask=hidden)
        return self.output(decoded).log_softmax(-1)

    def fairseq_tensors(self, *, in_one: bool) -> dict[str, Tensor]:
        """Returns the weights under fairseq's names; W^Q, W^K and W^V in one matrix as in its first versions."""
        names = {"linear1": "fc1", "linear2": "fc2", "multihead_attn": "encoder_attn", "norm1": "self_attn_layer_norm"}
        tensors: dict[str, Tensor] = {}
        for name, tensor in self.state_dict().items():
            last = "3" if name.startswith("decoder") else "2"
            renamed = name.replace(f"norm{last}", "final_layer_norm").replace("norm2", "encoder_attn_layer_norm")
            for ours, theirs in names.items():
                renamed = renamed.replace(ours, theirs)
            for side in ("encoder", "decoder"):
                renamed = renamed.replace(f"{side}.norm.", f"{side}.layer_norm.")
            if "in_proj_" in renamed and not in_one:
                for part, chunk in zip("qkv", tensor.chunk(3), strict=True):
                    tensors[renamed.replace("in_proj_", f"{part}_proj.")] = chunk
            else:
                tensors[renamed] = tensor
        for ours, theirs in {
            "source.weight": "encoder.embed_tokens.weight",
            "target.weight": "decoder.embed_tokens.weight",
            "output.weight": "decoder.output_projection.weight",
            "source_positions.weight": "encoder.embed_positions.weight",
            "target_positions.weight": "decoder.embed_positions.weight",
        }.items():
            tensors[theirs] = tensors.pop(ours)
        return tensors
