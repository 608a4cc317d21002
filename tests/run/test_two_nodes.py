"""Two nodes, each in a network namespace of its own, with a link between them that is cut and healed."""

import os
import shutil
import subprocess
import sys

import pytest

SCRIPT = r"""
set -eu
out=$1; shift
ip link set lo up
unshare -n sleep 600 & other=$!
trap 'kill $other' EXIT
there() { nsenter --target $other --net "$@"; }
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.1; done
ip link add left type veth peer name right
ip link set right netns $other
ip address add 10.9.8.1/24 dev left; ip link set left up
there ip address add 10.9.8.2/24 dev right; there ip link set right up; there ip link set lo up

GLOO_SOCKET_IFNAME=left "$@" --node-rank 0 $TRAIN 2> $out/node-0.log & first=$!
GLOO_SOCKET_IFNAME=right there "$@" --node-rank 1 $TRAIN 2> $out/node-1.log & second=$!
until grep -q "^step 20/" $out/node-0.log; do kill -0 $first; sleep 0.05; done
ip link set left down
sleep 1
before=$(wc -l < $out/node-0.log)
sleep 2
echo "lines while the link was cut: $(($(wc -l < $out/node-0.log) - before))"
ip link set left up
wait $first; wait $second
"""


def missing_requirement():
    """Returns why two nodes cannot run here, an empty string where they can."""
    for program in ("unshare", "nsenter", "ip"):
        if shutil.which(program) is None:
            return f"there is no `{program}`"
    tried = "unshare -n true && ip link add left type veth peer name right"
    made = subprocess.run(["unshare", "-rn", "sh", "-c", tried], capture_output=True, text=True, check=False)
    return f"no network namespaces: {made.stderr.strip()}" if made.returncode else ""


def command(recipe, out, *launcher):
    changes = (
        "training.steps=120",
        "training.micro_batches=2",
        "training.log_every=10",
        "training.validate_every=null",
    )
    train = ["-m", "transduce", "train", str(recipe), "--out", str(out), "--device", "cpu"]
    train += [part for change in (*changes, "training.save_every=60") for part in ("--set", change)]
    return [sys.executable, "-m", "torch.distributed.run", *launcher], train


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_requirement()), reason=missing_requirement())
def test_a_link_that_is_cut_and_healed_changes_nothing(micro, tmp_path):
    variables = {**os.environ, "OMP_NUM_THREADS": "1"}
    local = ("--nproc-per-node=2", "--master-port=0", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0")
    launcher, train = command(micro / "recipe.yaml", tmp_path / "one", *local)
    subprocess.run([*launcher, *train], env=variables, check=True, capture_output=True, timeout=240)

    between = ("--nproc-per-node=1", "--nnodes=2", "--master-addr=10.9.8.1", "--master-port=29511")
    launcher, train = command(micro / "recipe.yaml", tmp_path / "two", *between)
    script = SCRIPT.replace("$TRAIN", " ".join(train))
    nodes = ["unshare", "-rn", "bash", "-c", script, "nodes", str(tmp_path), *launcher]
    ended = subprocess.run(nodes, env=variables, check=False, capture_output=True, text=True, timeout=240)
    logs = "".join((tmp_path / f"node-{number}.log").read_text() for number in (0, 1))
    assert ended.returncode == 0, ended.stderr + logs
    assert "lines while the link was cut: 0" in ended.stdout
    single, double = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert single == double
