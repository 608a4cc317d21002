"""Converts the weights of a model directory for other engines.

Runs in a peer's environment, without `transduce`, and so reads `model.safetensors` and `config.json` as files.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

READOUT = {"kind": "tied", "bias": False}


class ModelFiles:
    """Weights and settings of a model directory; the model must have the norm last and one shared embedding."""

    def __init__(self, directory: Path) -> None:
        self.config: dict[str, Any] = json.loads((directory / "config.json").read_text("utf-8"))
        self.spec = self.config["model"]
        self.weights = load_file(directory / "model.safetensors")
        supported = {"norm": "post", "embeddings": "shared", "readout": READOUT, "first_input": "symbol"}
        for key, value in supported.items():
            if self.spec[key] != value:
                raise SystemExit(f"{directory}: only {key}: {value} can be converted, not {self.spec[key]}")

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.weights[name]

    @property
    def words(self) -> list[str]:
        """Returns a name for each id."""
        return ["<blank>", "<s>", "</s>"] + [f"w{number}" for number in range(3, self.config["vocabulary"]["target"])]

    def positions(self, length: int) -> np.ndarray:
        """Returns the vectors of positions, `[length, d_model]`: sine and cosine in turn, or the table of the model."""
        if self.spec["positions"]["kind"] == "learned":
            table: np.ndarray = self["source_embedding.positions.weight"][:length].numpy()
            return table
        width = self.spec["d_model"]
        rates = np.exp(-math.log(10000.0) * np.arange(width // 2) * 2 / width)
        angles = np.arange(length)[:, None] * rates
        return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, width).astype(np.float32)


def to_ctranslate2(directory: Path, out: Path) -> None:
    """Writes a CTranslate2 model in float32; its loader quantises."""
    from ctranslate2.converters.converter import Converter
    from ctranslate2.specs import TransformerSpec, common_spec

    files = ModelFiles(directory)

    class TransduceConverter(Converter):  # type: ignore[misc]
        def _load(self) -> Any:
            spec, heads = files.spec, files.spec["mixer"]["heads"]
            model = TransformerSpec.from_config(
                (spec["encoder_layers"], spec["decoder_layers"]),
                heads,
                pre_norm=False,
                activation=common_spec.Activation.RELU,
            )
            for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
                embeddings = stack.embeddings[0] if side == "encoder" else stack.embeddings
                embeddings.weight = files["source_embedding.weight"].numpy()
                stack.position_encodings.encodings = files.positions(2048)
                for number, layer in enumerate(stack.layer):
                    name = f"{side}.{number}"
                    _attention(layer.self_attention, f"{name}.mixer", f"{name}.around_mixer.norm", own=True)
                    if side == "decoder":
                        _attention(layer.attention, f"{name}.cross", f"{name}.around_cross.norm", own=False)
                    _linear(layer.ffn.linear_0, f"{name}.feed_forward.inner")
                    _linear(layer.ffn.linear_1, f"{name}.feed_forward.outer")
                    _norm(layer.ffn.layer_norm, f"{name}.around_feed_forward.norm")
            model.decoder.projection.weight = files["source_embedding.weight"].numpy()
            for register in (model.register_source_vocabulary, model.register_target_vocabulary):
                register(files.words)
            config = model.config
            config.bos_token, config.eos_token, config.unk_token = "<s>", "</s>", "<blank>"
            config.decoder_start_token = "<s>"
            config.add_source_eos = True
            config.layer_norm_epsilon = spec["norm_epsilon"]
            return model

    def _attention(target: Any, name: str, norm: str, own: bool) -> None:
        query, key_value = (files[f"{name}.{part}.weight"].numpy() for part in ("query", "key_value"))
        if own:
            target.linear[0].weight = np.concatenate([query, key_value])
        else:
            target.linear[0].weight, target.linear[1].weight = query, key_value
        target.linear[-1].weight = files[f"{name}.join.weight"].numpy()
        _norm(target.layer_norm, norm)

    def _linear(target: Any, name: str) -> None:
        target.weight, target.bias = files[f"{name}.weight"].numpy(), files[f"{name}.bias"].numpy()

    def _norm(target: Any, name: str) -> None:
        target.gamma, target.beta = files[f"{name}.weight"].numpy(), files[f"{name}.bias"].numpy()

    TransduceConverter().convert(str(out), force=True)


def to_marian(directory: Path) -> Any:
    """Returns the model as Hugging Face's `MarianMTModel`.

    Marian has all sines before all cosines: every dimension of size d_model is permuted accordingly.
    """
    from transformers import MarianConfig, MarianMTModel

    files = ModelFiles(directory)
    spec, heads = files.spec, files.spec["mixer"]["heads"]
    width, size = spec["d_model"], files.config["vocabulary"]["target"]
    order = torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])
    positions = torch.from_numpy(files.positions(1024))[:, order]
    model = MarianMTModel(
        MarianConfig(
            vocab_size=size,
            d_model=width,
            encoder_layers=spec["encoder_layers"],
            decoder_layers=spec["decoder_layers"],
            encoder_attention_heads=heads,
            decoder_attention_heads=heads,
            encoder_ffn_dim=spec["feed_forward"]["d_ff"],
            decoder_ffn_dim=spec["feed_forward"]["d_ff"],
            activation_function="relu",
            scale_embedding=True,
            dropout=0.0,
            max_position_embeddings=len(positions),
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            forced_eos_token_id=None,
            tie_word_embeddings=True,
            share_encoder_decoder_embeddings=True,
        )
    )
    filled = {name: torch.zeros_like(tensor) for name, tensor in model.state_dict().items()}
    for name in filled:
        if "embed_positions" in name:
            filled[name] = positions
        elif "embed_tokens" in name or "shared" in name or name == "lm_head.weight":
            filled[name] = files["source_embedding.weight"][:, order]
    for side in ("encoder", "decoder"):
        for number in range(spec[f"{side}_layers"]):
            ours, theirs = f"{side}.{number}", f"model.{side}.layers.{number}"
            parts = [("mixer", "self_attn", "around_mixer", "self_attn_layer_norm")]
            if side == "decoder":
                parts.append(("cross", "encoder_attn", "around_cross", "encoder_attn_layer_norm"))
            for attention, name, around, norm in parts:
                keys = heads * spec["mixer"]["d_k"]
                key_value = files[f"{ours}.{attention}.key_value.weight"]
                matrices = {
                    "q_proj": files[f"{ours}.{attention}.query.weight"][:, order],
                    "k_proj": key_value[:keys][:, order],
                    "v_proj": key_value[keys:][:, order],
                    "out_proj": files[f"{ours}.{attention}.join.weight"][order],
                }
                for part, matrix in matrices.items():
                    filled[f"{theirs}.{name}.{part}.weight"] = matrix
                for part in ("weight", "bias"):
                    filled[f"{theirs}.{norm}.{part}"] = files[f"{ours}.{around}.norm.{part}"][order]
            filled[f"{theirs}.fc1.weight"] = files[f"{ours}.feed_forward.inner.weight"][:, order]
            filled[f"{theirs}.fc1.bias"] = files[f"{ours}.feed_forward.inner.bias"]
            filled[f"{theirs}.fc2.weight"] = files[f"{ours}.feed_forward.outer.weight"][order]
            filled[f"{theirs}.fc2.bias"] = files[f"{ours}.feed_forward.outer.bias"][order]
            for part in ("weight", "bias"):
                filled[f"{theirs}.final_layer_norm.{part}"] = files[f"{ours}.around_feed_forward.norm.{part}"][order]
    model.load_state_dict(filled)
    return model.eval()
