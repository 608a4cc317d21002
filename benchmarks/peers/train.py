"""Training speed beside the peers', in turn in one run: `python benchmarks/peers/train.py [--rounds 3] [--seconds 60]`.

The same subword ids, the same model (Transformer-Tiny of Wu et al. 2021), the same 4,096 positions a step, dropout and
smoothing on, float32. A peer runs as it is shipped, and with the settings that `transduce` gives itself.
"""

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from peers import FOLDER, INSIDE, SHIPPED, TUNED, environment, machine, python_of, spread, table
from workload import Workload, workload

from transduce.corpus import Planner

SHAPE = {"d_model": 128, "layers": 4, "heads": 4, "d_ff": 256, "dropout": 0.3}


class System(NamedTuple):
    """A toolkit: the command that trains, and how it says its target tokens a second."""

    command: list[str]
    speed: re.Pattern[str]


def systems(work: Workload) -> dict[str, System]:
    """Each peer, told to train on the workload."""
    return {
        "JoeyNMT": System(
            [str(python_of("joeynmt")), "-m", "joeynmt", "train", str(_joeynmt(work)), "--skip-test"],
            re.compile(r"Tokens per Sec:\s+(\d+)"),
        ),
        "eole": System(
            [str(python_of("eole").parent / "eole"), "train", "--config", str(_eole(work))],
            re.compile(r"/\s*(\d+) tok/s"),
        ),
        "Hugging Face": System(
            [str(python_of("huggingface")), str(INSIDE / "train_huggingface.py"), str(_huggingface(work))],
            re.compile(r"([\d.]+) tokens a second"),
        ),
    }


def measured(system: System, settings: Mapping[str, str], seconds: float, log: Path) -> float:
    """Target tokens a second: the median of what the system reports for `seconds` after its first report."""
    speeds: list[float] = []
    deadline = float("inf")
    with log.open("w", encoding="utf-8") as kept:
        process = subprocess.Popen(
            system.command, env=environment(settings), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout is not None
        for line in process.stdout:
            kept.write(line)
            if found := system.speed.search(line):
                # The first report has the start in it.
                if deadline == float("inf"):
                    deadline = time.monotonic() + seconds
                else:
                    speeds.append(float(found[1]))
            if time.monotonic() > deadline and len(speeds) >= 3:
                break
        process.kill()
        process.wait()
    if not speeds:
        raise SystemExit(f"{system.command[0]} reported no speed; what it said is in {log}")
    return statistics.median(speeds)


def ours(work: Workload, seconds: float, precision: str) -> dict[str, Any]:
    """`transduce bench train` on the same corpus."""
    corpus = work.recipe.data.train[0].as_dictionary()
    command = [sys.executable, "-m", "transduce", "bench", "train", "--preset", "tiny", "--json"]
    command += ["--data", f"{corpus['source']},{corpus['target']}", "--steps", str(max(20, int(2 * seconds)))]
    for change in (
        "training.batch_tokens=4096",
        f"training.precision={precision}",
        "subwords.size=10000",
        "model.dropout=0.3",
    ):
        command += ["--set", change]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


def _joeynmt(work: Workload) -> Path:
    """Its configuration."""
    side = {"level": "word", "lowercase": False, "max_length": 256, "tokenizer_type": "none"}
    side["voc_file"] = str(work.folder / "vocabulary.txt")
    stack = {
        "type": "transformer",
        "num_layers": SHAPE["layers"],
        "num_heads": SHAPE["heads"],
        "hidden_size": SHAPE["d_model"],
        "ff_size": SHAPE["d_ff"],
        "dropout": SHAPE["dropout"],
        "layer_norm": "post",
        "embeddings": {"embedding_dim": SHAPE["d_model"], "scale": True, "dropout": 0.0},
    }
    return _written(
        work.folder / "joeynmt.yaml",
        {
            "name": "tiny",
            "joeynmt_version": "2.3.0",
            "model_dir": str(work.folder / "joeynmt"),
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
                "learning_rate": 0.005,
                "learning_rate_min": 0.0001,
                "learning_rate_warmup": 2000,
                "scheduling": "warmupinversesquareroot",
                "label_smoothing": 0.1,
                "normalization": "tokens",
                "batch_size": 4096,
                "batch_type": "token",
                "epochs": 1000,
                "validation_freq": 1_000_000,
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


def _eole(work: Workload) -> Path:
    """Its configuration."""
    vocabulary = work.folder / "eole.txt"
    words = (work.folder / "vocabulary.txt").read_text("utf-8")
    vocabulary.write_text(f"<unk>\n<blank>\n<s>\n</s>\n{words}", "utf-8")
    stack = {
        "layers": SHAPE["layers"],
        "hidden_size": SHAPE["d_model"],
        "transformer_ff": SHAPE["d_ff"],
        "heads": SHAPE["heads"],
    }
    return _written(
        work.folder / "eole.yaml",
        {
            "seed": 1,
            "save_data": str(work.folder / "eole-data"),
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
                "embeddings": {"word_vec_size": SHAPE["d_model"], "position_encoding_type": "SinusoidalInterleaved"},
            },
            "training": {
                "model_path": str(work.folder / "eole"),
                "world_size": 0,
                "gpu_ranks": [],
                "batch_type": "tokens",
                "batch_size": 4096,
                "normalization": "tokens",
                "accum_count": [1],
                "bucket_size": 30000,
                "num_workers": 0,
                "compute_dtype": "fp32",
                "optim": "adam",
                "adam_beta2": 0.98,
                "learning_rate": 0.005,
                "warmup_steps": 2000,
                "decay_method": "rsqrt",
                "dropout": [SHAPE["dropout"]],
                "attention_dropout": [0.0],
                "label_smoothing": 0.1,
                "max_grad_norm": 0.0,
                "train_steps": 100_000,
                "save_checkpoint_steps": 100_000,
                "valid_steps": 100_000,
            },
        },
    )


def _huggingface(work: Workload) -> Path:
    """Its task. It counts a batch in sentences: as many as our steps have on average."""
    planner = Planner(work.prepared.train, batch_tokens=4096, pieces=1, seed=1)
    return _written(
        work.folder / "huggingface.json",
        {
            "folder": str(work.folder),
            "scratch": str(work.folder / "huggingface"),
            "sentences_a_step": round(len(work.prepared.train) / planner.steps_per_epoch),
            "shape": {**SHAPE, "vocabulary": work.prepared.source.size},
        },
    )


def _written(path: Path, values: Mapping[str, Any]) -> Path:
    """JSON, which is YAML too."""
    path.write_text(json.dumps(values, indent=1), "utf-8")
    return path


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each system has its turn")
    parser.add_argument("--seconds", type=float, default=60, help="how long a turn is measured")
    asked = parser.parse_args()
    work = workload(FOLDER / "work")
    peers = systems(work)
    speeds: dict[tuple[str, str], list[float]] = {}
    found: dict[str, Any] = {}
    for turn in range(asked.rounds):
        for precision in ("float32", "bfloat16"):
            found = ours(work, asked.seconds, precision)
            speeds.setdefault(("transduce", precision), []).append(found["tokens_per_second"])
            print(
                f"transduce {precision}: {found['tokens_per_second']:,.0f}, {found['share_of_peak']:.0%}",
                file=sys.stderr,
            )
        for name, system in peers.items():
            for kind, settings in (("as shipped", SHIPPED), ("tuned", TUNED)):
                log = work.folder / f"{name}-{kind}.log".replace(" ", "-")
                speed = measured(system, settings, asked.seconds, log)
                speeds.setdefault((name, kind), []).append(speed)
                print(f"round {turn + 1}, {name} {kind}: {speed:,.0f}", file=sys.stderr)
        shutil.rmtree(work.folder / "joeynmt", ignore_errors=True)
    mine = statistics.median(speeds["transduce", "float32"])
    rows = [[*name, spread(values), f"{mine / statistics.median(values):.2f}"] for name, values in speeds.items()]
    print(f"{machine()}; {asked.rounds} rounds of {asked.seconds:g} s; tuned: {TUNED}")
    print(
        table(
            [
                "system",
                "settings",
                "target tokens/s, median (least–greatest)",
                "transduce float32 is so many times as fast",
            ],
            rows,
        )
    )


if __name__ == "__main__":
    main()
