"""A training of seconds on the embedded corpus, for benchmarks that damage or kill runs."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

RECIPE = """
data: {train: {embedded: train}}
subwords: {kind: bpe, size: 400}
model:
  preset: tiny
  d_model: 32
  encoder_layers: 1
  decoder_layers: 1
  mixer: {kind: attention, heads: 2, d_k: 16, d_v: 16}
  cross: {kind: attention, heads: 2, d_k: 16, d_v: 16}
  feed_forward: {kind: feed_forward, d_ff: 64}
training:
  steps: 400
  batch_tokens: 2048
  micro_batches: 4
  precision: float32
  schedule: {kind: inverse_square_root, warmup: 20, peak: 0.003}
  save_every: 10
  log_every: 10
  keep: 3
  average: 3
"""


def start_training(folder: Path, out: Path, processes: int = 1) -> subprocess.Popen[bytes]:
    """Starts `transduce train` in a process group of its own; several processes run under `torchrun`."""
    recipe = folder / "recipe.yaml"
    recipe.write_text(RECIPE, "utf-8")
    torchrun = ["-m", "torch.distributed.run", f"--nproc-per-node={processes}", "--rdzv-backend=c10d"]
    torchrun += ["--rdzv-endpoint=localhost:0"]
    command = [sys.executable, *(torchrun if processes > 1 else []), "-m", "transduce", "train", str(recipe)]
    return subprocess.Popen(
        [*command, "--out", str(out), "--device", "cpu"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")},
    )


def train(folder: Path, out: Path, processes: int = 1) -> None:
    """Runs `transduce train` to its end; exits with a message if it fails."""
    if code := start_training(folder, out, processes).wait():
        raise SystemExit(f"the training of {out} ended with exit code {code}")
