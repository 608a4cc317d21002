"""Models of Marian's shape with random weights, and what they compute, in NumPy alone and in float64."""

from pathlib import Path
from typing import Any

import numpy as np
from foreign_models import ENGLISH, GERMAN, pieces, train_sentence_piece
from numpy.typing import NDArray

Array = NDArray[np.float64]

D_MODEL, HEADS, D_FF, ENCODER_LAYERS, DECODER_LAYERS = 24, 3, 40, 2, 3

SETTINGS: dict[str, Any] = {
    "dec-depth": DECODER_LAYERS,
    "dim-emb": D_MODEL,
    "enc-depth": ENCODER_LAYERS,
    "input-types": "[]",
    "layer-normalization": "false",
    "skip": "false",
    "tied-embeddings": "false",
    "tied-embeddings-all": "true",
    "tied-embeddings-src": "false",
    "transformer-aan-depth": 2,
    "transformer-decoder-autoreg": "self-attention",
    "transformer-dim-ffn": D_FF,
    "transformer-ffn-activation": "swish",
    "transformer-ffn-depth": 2,
    "transformer-heads": HEADS,
    "transformer-no-projection": "false",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-preprocess": '""',
    "transformer-tied-layers": "[]",
    "transformer-train-position-embeddings": "false",
    "type": "transformer",
    "ulr": "false",
    "version": "v1.9.0 ba94c5b9 2020-05-17 10:42:17 +0100",
}


def random_weights(source: int, target: int, *, tied: bool) -> dict[str, NDArray[np.float32]]:
    """Returns weights under Marian's names; `tied` is one matrix for both embeddings and the readout."""
    generator = np.random.default_rng(5)
    shapes: dict[str, tuple[int, int]] = {}

    def attention(prefix: str) -> None:
        shapes.update({f"{prefix}_W{part}": (D_MODEL, D_MODEL) for part in "qkvo"})
        shapes.update({f"{prefix}_b{part}": (1, D_MODEL) for part in "qkvo"})
        norm(f"{prefix}_Wo")

    def norm(prefix: str) -> None:
        shapes.update({f"{prefix}_ln_scale": (1, D_MODEL), f"{prefix}_ln_bias": (1, D_MODEL)})

    for side, count in (("encoder", ENCODER_LAYERS), ("decoder", DECODER_LAYERS)):
        for layer in range(1, count + 1):
            attention(f"{side}_l{layer}_self")
            if side == "decoder":
                attention(f"{side}_l{layer}_context")
            ffn = f"{side}_l{layer}_ffn"
            shapes |= {f"{ffn}_W1": (D_MODEL, D_FF), f"{ffn}_b1": (1, D_FF)}
            shapes |= {f"{ffn}_W2": (D_FF, D_MODEL), f"{ffn}_b2": (1, D_MODEL)}
            norm(f"{ffn}_ffn")
    shapes |= (
        {"Wemb": (target, D_MODEL)} if tied else {"encoder_Wemb": (source, D_MODEL), "decoder_Wemb": (target, D_MODEL)}
    )
    shapes |= {"decoder_ff_logit_out_b": (1, target)} | ({} if tied else {"decoder_ff_logit_out_W": (D_MODEL, target)})
    weights = {name: generator.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    return {name: weight + np.float32("ln_scale" in name) for name, weight in weights.items()}


def write_marian(directory: Path, *, tied: bool, **changes: Any) -> dict[str, NDArray[np.float32]]:
    """Writes a model and its vocabularies: with `tied` a YAML of both languages' pieces, else two `.spm` files."""
    directory.mkdir(parents=True)
    models = {"source": train_sentence_piece(ENGLISH, 60), "target": train_sentence_piece(GERMAN, 70, "bpe")}
    names = ["vocab.yml", "vocab.yml"]
    if tied:
        for side, model in models.items():
            (directory / f"{side}.spm").write_bytes(model)
        listed = ["</s>", "<unk>", *sorted({piece for model in models.values() for piece in pieces(model)[3:]})]
        write_yaml_vocabulary(directory / "vocab.yml", listed)
        sizes = [len(listed)] * 2
    else:
        symbols: dict[str, Any] = {"eos_id": 0, "unk_id": 1, "bos_id": -1}
        models = {
            "en": train_sentence_piece(ENGLISH, 60, **symbols),
            "de": train_sentence_piece(GERMAN, 70, "bpe", **symbols),
        }
        names = [f"vocab.{side}.spm" for side in models]
        for name, model in zip(names, models.values(), strict=True):
            (directory / name).write_bytes(model)
        sizes = [len(pieces(model)) for model in models.values()]
    weights = random_weights(*sizes, tied=tied)
    settings = {**SETTINGS, "tied-embeddings-all": str(tied).lower(), **changes}
    text = "".join(f"{name}: {value}\n" for name, value in settings.items())
    text += f"dim-vocabs:\n  - {sizes[0]}\n  - {sizes[1]}\n"
    save_npz(directory / "model.npz", weights, text)
    (directory / "decoder.yml").write_text(
        f"models:\n  - model.npz\nvocabs:\n  - {names[0]}\n  - {names[1]}\nbeam-size: 6\nnormalize: 0.6\n", "utf-8"
    )
    return weights


def save_npz(path: Path, weights: dict[str, Any], settings: str) -> None:
    """Writes a model with its settings inside, as bytes that end with NUL."""
    content = np.frombuffer(settings.encode() + b"\0", np.int8)
    np.savez(path, **weights, **{"special:model.yml": content})


def write_yaml_vocabulary(path: Path, tokens: list[str]) -> None:
    """Writes a vocabulary as Marian does, each token in quotes that needs them."""
    plain = [token.replace("\\", "\\\\").replace('"', '\\"') for token in tokens]
    lines = [
        f"{token}: {number}\n" if token.strip("▁").isalpha() else f'"{escaped}": {number}\n'
        for number, (token, escaped) in enumerate(zip(tokens, plain, strict=True))
    ]
    path.write_text("".join(lines), "utf-8")


def softmax(scores: Array) -> Array:
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


class MarianInNumPy:
    """Marian's Transformer for one sentence: post-norm, swish, ε 1e-6, and a first input of the decoder of zeros."""

    def __init__(self, weights: dict[str, NDArray[np.float32]]) -> None:
        self.weights: dict[str, Array] = {name: weight.astype(np.float64) for name, weight in weights.items()}

    def log_probabilities(self, source: list[int], target: list[int]) -> Array:
        """Returns log-probabilities after the begin of the decoder and after each of `target`."""
        weights = self.weights
        memory = self.positioned(weights.get("encoder_Wemb", weights.get("Wemb"))[source])
        for layer in range(1, ENCODER_LAYERS + 1):
            memory = self.attention(f"encoder_l{layer}_self", memory, memory)
            memory = self.feed_forward(f"encoder_l{layer}_ffn", memory)
        table = weights.get("decoder_Wemb", weights.get("Wemb"))
        states = self.positioned(np.concatenate([np.zeros((1, D_MODEL)), table[target]]))
        for layer in range(1, DECODER_LAYERS + 1):
            states = self.attention(f"decoder_l{layer}_self", states, states, causal=True)
            states = self.attention(f"decoder_l{layer}_context", states, memory)
            states = self.feed_forward(f"decoder_l{layer}_ffn", states)
        output = weights.get("decoder_ff_logit_out_W", table.T)
        return np.log(softmax(states @ output + weights["decoder_ff_logit_out_b"]))

    def positioned(self, vectors: Array) -> Array:
        """Returns embeddings · √d plus sines and cosines, whose rates are spaced by d/2 − 1."""
        rates = np.exp(np.arange(D_MODEL // 2) * -(np.log(10000.0) / (D_MODEL // 2 - 1)))
        angles = np.arange(len(vectors))[:, None] * rates
        return vectors * np.sqrt(D_MODEL) + np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

    def attention(self, prefix: str, states: Array, attended: Array, *, causal: bool = False) -> Array:
        """Returns the states after an attention, its residual connection and its norm."""
        query, key, value = (
            self.linear(inputs, prefix, part).reshape(len(inputs), HEADS, -1).transpose(1, 0, 2)
            for part, inputs in (("q", states), ("k", attended), ("v", attended))
        )
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(D_MODEL // HEADS)
        if causal:
            scores = np.where(np.tri(len(states), dtype=bool), scores, -np.inf)
        joined = (softmax(scores) @ value).transpose(1, 0, 2).reshape(len(states), -1)
        return self.norm(f"{prefix}_Wo", states + self.linear(joined, prefix, "o"))

    def feed_forward(self, prefix: str, states: Array) -> Array:
        """Returns the states after the feed-forward network, its residual connection and its norm."""
        hidden = self.linear(states, prefix, "1")
        hidden = hidden / (1 + np.exp(-hidden))
        return self.norm(f"{prefix}_ffn", states + self.linear(hidden, prefix, "2"))

    def linear(self, states: Array, prefix: str, part: str) -> Array:
        return states @ self.weights[f"{prefix}_W{part}"] + self.weights[f"{prefix}_b{part}"]

    def norm(self, prefix: str, states: Array) -> Array:
        centred = states - states.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
        return scaled * self.weights[f"{prefix}_ln_scale"] + self.weights[f"{prefix}_ln_bias"]
