"""The toolkits that train: their configurations for `workload.py`, and their checkpoints.

All train with label smoothing 0.1 and Adam; after its warm-up the learning rate falls as the inverse square root.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from peers import INSIDE, python_of
from workload import Workload

from transduce.corpus.planner import Planner


class Hyperparameters(NamedTuple):
    """A model and its steps; the defaults are Transformer-Tiny of Wu et al. 2021."""

    d_model: int = 128
    layers: int = 4  # of the encoder, and of the decoder
    heads: int = 4
    d_ff: int = 256
    dropout: float = 0.3
    batch_tokens: int = 4096  # positions of a step
    warmup: int = 2000  # steps until the highest learning rate
    peak: float = 0.005  # that rate


TINY = Hyperparameters()


class System(NamedTuple):
    """A toolkit: its command to train, the pattern of its speed in target tokens a second, and its checkpoints."""

    command: list[str]
    speed: re.Pattern[str]
    checkpoint: str  # pattern of their paths in the toolkit's folder, with one group, the step
    translate: Callable[[Path, Path, Path], list[str]] | None  # (checkpoint, source, output) → a greedy search


def configure_systems(
    work: Workload,
    folder: Path,
    every: int,
    precision: str = "float32",
    hyperparameters: Hyperparameters = TINY,
) -> dict[str, System]:
    """Returns each peer, configured to train on the workload and to save into `folder` every `every` steps.

    In bfloat16 returns only the peers that have it on a CPU.
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = work, folder, every, hyperparameters
    eole = str(python_of("eole").parent / "eole")
    peers = {
        "JoeyNMT": System(
            [str(python_of("joeynmt")), "-m", "joeynmt", "train", str(_joeynmt(*settings)), "--skip-test"],
            re.compile(r"Tokens per Sec:\s+(\d+)"),
            r"joeynmt/(\d+)\.hyps",  # it translates the validation set itself
            None,
        ),
        "eole": System(
            [eole, "train", "--config", str(_eole(*settings, precision))],
            re.compile(r"/\s*(\d+) tok/s"),
            r"eole/step_(\d+)",
            lambda checkpoint, source, output: [
                *[eole, "predict", "--model_path", str(checkpoint), "--src", str(source), "--output", str(output)],
                *["--beam_size", "1", "--batch_size", "4096", "--batch_type", "tokens"],
            ],
        ),
        "Hugging Face": configure_huggingface(*settings, precision),
    }
    if precision != "float32":
        del peers["JoeyNMT"]
    return peers


def configure_huggingface(
    work: Workload, folder: Path, every: int, hyperparameters: Hyperparameters, precision: str, device: str = "cpu"
) -> System:
    """Returns Hugging Face's library, of its own environment on a CPU and of this one on a GPU."""
    folder.mkdir(parents=True, exist_ok=True)
    python = str(python_of("huggingface")) if device == "cpu" else sys.executable
    task = _huggingface(work, folder, every, hyperparameters, precision, device)
    return System(
        [python, str(INSIDE / "train_huggingface.py"), str(task)],
        re.compile(r"([\d.]+) tokens a second"),
        r"huggingface/checkpoint-(\d+)",
        lambda checkpoint, source, output: [
            python,
            str(INSIDE / "greedy_huggingface.py"),
            str(checkpoint),
            str(source),
            str(output),
        ],
    )


def _joeynmt(work: Workload, folder: Path, every: int, settings: Hyperparameters) -> Path:
    """Writes the configuration of JoeyNMT."""
    side = {"level": "word", "lowercase": False, "max_length": 256, "tokenizer_type": "none"}
    side["voc_file"] = str(work.folder / "vocabulary.txt")
    stack = {
        "type": "transformer",
        "num_layers": settings.layers,
        "num_heads": settings.heads,
        "hidden_size": settings.d_model,
        "ff_size": settings.d_ff,
        "dropout": settings.dropout,
        "layer_norm": "post",
        "embeddings": {"embedding_dim": settings.d_model, "scale": True, "dropout": settings.dropout},
    }
    return _write(
        folder / "joeynmt.yaml",
        {
            "name": "tiny",
            "joeynmt_version": "2.3.0",
            "model_dir": str(folder / "joeynmt"),
            "use_cuda": False,
            "fp16": False,
            "random_seed": 1,
            "data": {
                "train": str(work.folder / "train"),
                "dev": str(work.folder / "validation"),
                "dataset_type": "plain",
                "src": {"lang": "src", **side},
                "trg": {"lang": "trg", **side},
            },
            "testing": {"beam_size": 5, "beam_alpha": 0.6, "batch_size": 1024, "batch_type": "token"},
            "training": {
                "optimizer": "adam",
                "adam_betas": [0.9, 0.98],
                "learning_rate": settings.peak,
                "learning_rate_min": 0.0001,
                "learning_rate_warmup": settings.warmup,
                "scheduling": "warmupinversesquareroot",
                "label_smoothing": 0.1,
                "normalization": "tokens",
                "batch_size": settings.batch_tokens,
                "batch_type": "token",
                "epochs": 1000,
                "validation_freq": every,
                "keep_best_ckpts": 1,
                "logging_freq": 5,
                "overwrite": True,
            },
            "model": {
                "initializer": "xavier_uniform",
                "tied_embeddings": True,
                "tied_softmax": True,
                "encoder": stack,
                "decoder": stack,
            },
        },
    )


def _eole(work: Workload, folder: Path, every: int, settings: Hyperparameters, precision: str) -> Path:
    """Writes the configuration of eole."""
    vocabulary = folder / "eole.txt"
    words = (work.folder / "vocabulary.txt").read_text("utf-8")
    vocabulary.write_text(f"<unk>\n<blank>\n<s>\n</s>\n{words}", "utf-8")
    stack = {
        "layers": settings.layers,
        "hidden_size": settings.d_model,
        "transformer_ff": settings.d_ff,
        "heads": settings.heads,
    }
    return _write(
        folder / "eole.yaml",
        {
            "seed": 1,
            "save_data": str(folder / "eole-data"),
            "overwrite": True,
            "src_vocab": str(vocabulary),
            "tgt_vocab": str(vocabulary),
            "share_vocab": True,
            "vocab_size_multiple": 1,
            "report_every": 5,
            "data": {
                "corpus": {
                    "path_src": str(work.folder / "train.src"),
                    "path_tgt": str(work.folder / "train.trg"),
                    "transforms": [],
                }
            },
            "model": {
                "architecture": "transformer",
                "share_embeddings": True,
                "share_decoder_embeddings": True,
                **stack,
                "encoder": {"encoder_type": "transformer", **stack},
                "decoder": {"decoder_type": "transformer", **stack},
                "embeddings": {"word_vec_size": settings.d_model, "position_encoding_type": "SinusoidalInterleaved"},
            },
            "training": {
                "model_path": str(folder / "eole"),
                "world_size": 0,
                "gpu_ranks": [],
                "batch_type": "tokens",
                "batch_size": settings.batch_tokens,
                "normalization": "tokens",
                "accum_count": [1],
                "bucket_size": 30000,
                "num_workers": 0,
                "compute_dtype": {"float32": "fp32", "bfloat16": "bf16"}[precision],
                "optim": "adam",
                "adam_beta2": 0.98,
                # Its `noam` is the paper's schedule, times this. Its `rsqrt` does not warm up.
                "learning_rate": settings.peak * (settings.d_model * settings.warmup) ** 0.5,
                "warmup_steps": settings.warmup,
                "decay_method": "noam",
                "param_init_method": "xavier_uniform",
                "dropout": [settings.dropout],
                "attention_dropout": [0.0],
                "label_smoothing": 0.1,
                "max_grad_norm": 0.0,
                "train_steps": 100_000,
                "save_checkpoint_steps": every,
                "valid_steps": 100_000,
            },
        },
    )


def _huggingface(
    work: Workload, folder: Path, every: int, settings: Hyperparameters, precision: str, device: str
) -> Path:
    """Writes the task of `train_huggingface.py`. A batch has as many sentences as our steps have on average."""
    planner = Planner(work.prepared.train, batch_tokens=settings.batch_tokens, micro_batches=1, seed=1)
    return _write(
        folder / "huggingface.json",
        {
            "folder": str(work.folder),
            "scratch": str(folder / "huggingface"),
            "every": every,
            "device": device,
            "bfloat16": precision == "bfloat16",
            "sentences_a_step": round(len(work.prepared.train) / planner.steps_per_epoch),
            "settings": {**settings._asdict(), "vocabulary": work.prepared.source.size},
        },
    )


def _write(path: Path, values: Mapping[str, Any]) -> Path:
    """Writes JSON, which is also YAML, and returns the path."""
    path.write_text(json.dumps(values, indent=1), "utf-8")
    return path
