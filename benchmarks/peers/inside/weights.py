"""A model directory of ours as other engines' weights: enough of an exporter for a benchmark.

Runs in a peer's own environment, so it reads `model.safetensors` and `config.json` as files.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file


class Ours:
    """The weights and the settings of one model directory: post-norm, ReLU, one shared embedding."""

    def __init__(self, directory: Path) -> None:
        self.config: dict[str, Any] = json.loads((directory / "config.json").read_text("utf-8"))
        self.spec = self.config["model"]
        self.weights = load_file(directory / "model.safetensors")
        plain = {"norm": "post", "embeddings": "shared", "readout": {"kind": "tied"}, "first_input": "symbol"}
        for key, value in plain.items():
            if self.spec[key] != value:
                raise SystemExit(f"{directory}: this exporter knows {key}: {value} alone, not {self.spec[key]}")

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.weights[name]

    @property
    def words(self) -> list[str]:
        """A name for each id."""
        named = ["<blank>", "<s>", "</s>"]
        return named + [f"w{number}" for number in range(3, self.config["vocabulary"]["target"])]

    def positions(self, length: int) -> np.ndarray:
        """The sinusoids that the model adds: [length d_model], sine and cosine in turn."""
        width = self.spec["d_model"]
        rates = np.exp(-math.log(10000.0) * np.arange(width // 2) * 2 / width)
        angles = np.arange(length)[:, None] * rates
        return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, width).astype(np.float32)


def to_ctranslate2(directory: Path, out: Path) -> None:
    """Writes a CTranslate2 model in float32; its loader quantises."""
    from ctranslate2.converters.converter import Converter
    from ctranslate2.specs import TransformerSpec, common_spec

    ours = Ours(directory)

    class FromOurs(Converter):  # type: ignore[misc]
        def _load(self) -> Any:
            spec, heads = ours.spec, ours.spec["mixer"]["heads"]
            made = TransformerSpec.from_config(
                (spec["encoder_layers"], spec["decoder_layers"]),
                heads,
                pre_norm=False,
                activation=common_spec.Activation.RELU,
            )
            for side, stack in (("encoder", made.encoder), ("decoder", made.decoder)):
                embeddings = stack.embeddings[0] if side == "encoder" else stack.embeddings
                embeddings.weight = ours["source_embedding.weight"].numpy()
                stack.position_encodings.encodings = ours.positions(2048)
                for number, layer in enumerate(stack.layer):
                    name = f"{side}.{number}"
                    _attention(layer.self_attention, f"{name}.mixer", f"{name}.around_mixer.norm", own=True)
                    if side == "decoder":
                        _attention(layer.attention, f"{name}.cross", f"{name}.around_cross.norm", own=False)
                    _linear(layer.ffn.linear_0, f"{name}.feed_forward.inner")
                    _linear(layer.ffn.linear_1, f"{name}.feed_forward.outer")
                    _norm(layer.ffn.layer_norm, f"{name}.around_feed_forward.norm")
            made.decoder.projection.weight = ours["source_embedding.weight"].numpy()
            for register in (made.register_source_vocabulary, made.register_target_vocabulary):
                register(ours.words)
            config = made.config
            config.bos_token, config.eos_token, config.unk_token = "<s>", "</s>", "<blank>"
            config.decoder_start_token = "<s>"
            config.add_source_eos = True
            config.layer_norm_epsilon = spec["norm_epsilon"]
            return made

    def _attention(made: Any, name: str, norm: str, own: bool) -> None:
        query, key_value = (ours[f"{name}.{part}.weight"].numpy() for part in ("query", "key_value"))
        if own:
            made.linear[0].weight = np.concatenate([query, key_value])
        else:
            made.linear[0].weight, made.linear[1].weight = query, key_value
        made.linear[-1].weight = ours[f"{name}.join.weight"].numpy()
        _norm(made.layer_norm, norm)

    def _linear(made: Any, name: str) -> None:
        made.weight, made.bias = ours[f"{name}.weight"].numpy(), ours[f"{name}.bias"].numpy()

    def _norm(made: Any, name: str) -> None:
        made.gamma, made.beta = ours[f"{name}.weight"].numpy(), ours[f"{name}.bias"].numpy()

    FromOurs().convert(str(out), force=True)


def to_marian(directory: Path) -> Any:
    """The model as Hugging Face's `MarianMTModel`.

    Marian keeps all sines before all cosines, so whatever is as wide as the states is put in that order.
    """
    from transformers import MarianConfig, MarianMTModel

    ours = Ours(directory)
    spec, heads = ours.spec, ours.spec["mixer"]["heads"]
    width, size = spec["d_model"], ours.config["vocabulary"]["target"]
    order = torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])
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
            max_position_embeddings=1024,
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
            filled[name] = model.state_dict()[name]
        elif "embed_tokens" in name or "shared" in name or name == "lm_head.weight":
            filled[name] = ours["source_embedding.weight"][:, order]
    for side in ("encoder", "decoder"):
        for number in range(spec[f"{side}_layers"]):
            mine, theirs = f"{side}.{number}", f"model.{side}.layers.{number}"
            parts = [("mixer", "self_attn", "around_mixer", "self_attn_layer_norm")]
            if side == "decoder":
                parts.append(("cross", "encoder_attn", "around_cross", "encoder_attn_layer_norm"))
            for attention, name, around, norm in parts:
                keys = heads * spec["mixer"]["d_k"]
                key_value = ours[f"{mine}.{attention}.key_value.weight"]
                matrices = {
                    "q_proj": ours[f"{mine}.{attention}.query.weight"][:, order],
                    "k_proj": key_value[:keys][:, order],
                    "v_proj": key_value[keys:][:, order],
                    "out_proj": ours[f"{mine}.{attention}.join.weight"][order],
                }
                for part, matrix in matrices.items():
                    filled[f"{theirs}.{name}.{part}.weight"] = matrix
                for part in ("weight", "bias"):
                    filled[f"{theirs}.{norm}.{part}"] = ours[f"{mine}.{around}.norm.{part}"][order]
            filled[f"{theirs}.fc1.weight"] = ours[f"{mine}.feed_forward.inner.weight"][:, order]
            filled[f"{theirs}.fc1.bias"] = ours[f"{mine}.feed_forward.inner.bias"]
            filled[f"{theirs}.fc2.weight"] = ours[f"{mine}.feed_forward.outer.weight"][order]
            filled[f"{theirs}.fc2.bias"] = ours[f"{mine}.feed_forward.outer.bias"][order]
            for part in ("weight", "bias"):
                filled[f"{theirs}.final_layer_norm.{part}"] = ours[f"{mine}.around_feed_forward.norm.{part}"][order]
    model.load_state_dict(filled)
    return model.eval()
