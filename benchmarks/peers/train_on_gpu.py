"""Compares training on a GPU with Hugging Face's `Seq2SeqTrainer`: target tokens a second of one model, in turn.

    python benchmarks/peers/train_on_gpu.py [--model base] [--batch-tokens 25000] [--rounds 2] [--seconds 20]

Hugging Face runs in the environment of this command, which needs `transformers` and `accelerate` beside a torch that
has the GPU. Both train on Multi30k's subwords in bfloat16, with Adam, dropout 0.1 and label smoothing 0.1.
"""

import argparse
import json
import statistics
import subprocess
import sys
from importlib.metadata import version

import torch
from peers import FOLDER, SHIPPED, median_and_range, table
from systems import TINY, Hyperparameters, configure_huggingface
from train import NEVER, measure_peer, say
from workload import Workload, prepare_workload

MODELS = {
    "base": Hyperparameters(d_model=512, layers=6, heads=8, d_ff=2048, dropout=0.1, warmup=4000, peak=0.0007),
    "tiny": TINY._replace(dropout=0.1),
}


def measure_transduce(work: Workload, model: str, batch_tokens: int, steps: int) -> float:
    """Returns the target tokens a second of `transduce bench train`."""
    corpus = work.recipe.data.train[0].as_dictionary()
    command = [sys.executable, "-m", "transduce", "bench", "train", "--preset", model, "--json", "--device", "cuda"]
    command += ["--data", f"{corpus['source']},{corpus['target']}", "--steps", str(steps)]
    for change in (
        f"training.batch_tokens={batch_tokens}",
        "training.optimiser={kind: adam}",
        "subwords.size=10000",
        "model.dropout=0.1",
    ):
        command += ["--set", change]
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(finished.stdout)["tokens_per_second"])


def main() -> None:
    """Measures both in turn and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="base")
    parser.add_argument("--batch-tokens", type=int, default=25_000, help="positions of a step")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each system")
    parser.add_argument("--seconds", type=float, default=20, help="seconds of a turn of Hugging Face")
    parser.add_argument("--steps", type=int, default=60, help="steps of a turn of transduce")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("torch sees no GPU here; `train.py` compares training on a CPU")
    work = prepare_workload(FOLDER / "work")
    hyperparameters = MODELS[arguments.model]._replace(batch_tokens=arguments.batch_tokens)
    peer = configure_huggingface(work, FOLDER / "gpu", NEVER, hyperparameters, "bfloat16", device="cuda")
    speeds: dict[str, list[float]] = {"transduce": [], f"Hugging Face {version('transformers')}": []}
    ours, theirs = speeds.values()
    for number in range(1, arguments.rounds + 1):
        ours.append(measure_transduce(work, arguments.model, arguments.batch_tokens, arguments.steps))
        theirs.append(measure_peer(peer, SHIPPED, arguments.seconds, FOLDER / "gpu/huggingface.log"))
        say(f"round {number}: {ours[-1]:,.0f} and {theirs[-1]:,.0f}")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {arguments.model}, bfloat16")
    ratio = f"{statistics.median(ours) / statistics.median(theirs):.2f}"
    rows = [[name, median_and_range(values)] for name, values in speeds.items()]
    print(table(["system", f"target tokens/s, median (least–greatest) of {arguments.rounds} turns"], rows))
    print(f"transduce is {ratio} times as fast")


if __name__ == "__main__":
    main()
