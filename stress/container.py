"""Runs the Dockerfile without a container engine: `python container.py --base FOLDER --model RUN`, as root.

FOLDER is a small Debian, as `debootstrap --variant=minbase` makes it, in the place of the base image; `--mount` puts a
Python into it. The steps of each stage run in a copy by chroot. Then ENTRYPOINT and CMD start as the image's user, with
the file system read-only except /tmp, and the model at /models. The script checks that HEALTHCHECK succeeds and that
SIGTERM ends the server with code 143, and prints a translation and the folders that the server can write into.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ALWAYS = ("/proc", "/dev/null", "/dev/urandom", "/etc/resolv.conf", "/etc/hosts")  # what an engine gives to each step


@dataclass
class Stage:
    """A stage of a Dockerfile: its file system and what its instructions have set."""

    root: Path
    workdir: str = "/"
    user: str = "0"
    variables: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})
    settings: dict[str, Any] = field(default_factory=dict)

    def run(self, command: list[str], **options: Any) -> subprocess.Popen[str]:
        """Starts a command in the file system of the stage."""
        chroot = shutil.which("chroot") or "/usr/sbin/chroot"  # Popen would look for it in the PATH of the stage
        inside = [chroot, f"--userspec={self.user}", str(self.root), *command]
        return subprocess.Popen(inside, env=self.variables, text=True, **options)


def instructions(path: Path) -> list[tuple[str, str]]:
    """Returns the instructions of a Dockerfile with their arguments, without comments and continued lines."""
    text = re.sub(r"^#.*\n", "", path.read_text("utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def build(base: Path, folder: Path, mounts: list[tuple[str, str]]) -> Stage:
    """Runs the instructions; returns the last stage."""
    stages: dict[str, Stage] = {}
    for name, text in instructions(ROOT / "Dockerfile"):
        print(name, text, flush=True)
        match name:
            case "FROM":
                title = text.partition(" AS ")[2] or "final"
                stages[title] = stage = Stage(folder / title)
                subprocess.run(["cp", "-a", str(base), str(stage.root)], check=True)
                for place, inside in [*((place, place) for place in ALWAYS), *mounts]:
                    mount(place, stage.root / inside.lstrip("/"))
            case "ARG":
                stage.variables |= {text: os.environ[text]} if text in os.environ else {}
            case "ENV":
                stage.variables |= dict(pair.split("=", 1) for pair in shlex.split(text))
            case "WORKDIR":
                stage.workdir = text
                (stage.root / text.lstrip("/")).mkdir(parents=True, exist_ok=True)
            case "COPY":
                copy(text, stage, stages)
            case "USER":
                stage.user = text
            case "RUN":
                step = re.sub(r"--mount=\S+", "", text)
                ended = stage.run(["sh", "-c", f"cd {stage.workdir} && {step}"]).wait()
                if ended:
                    raise SystemExit(f"RUN {text}: exit code {ended}")
            case _:
                stage.settings[name] = text
    return stage


def copy(text: str, stage: Stage, stages: dict[str, Stage]) -> None:
    """Copies files of the repository or of another stage, as COPY does."""
    *sources, target = [word for word in text.split() if not word.startswith("--from=")]
    origin = re.match(r"--from=(\S+)", text)
    for source in sources:
        place = stages[origin[1]].root / source.lstrip("/") if origin else ROOT / source
        into = stage.root / (target if target.startswith("/") else f"{stage.workdir}/{target}").lstrip("/")
        if place.is_dir():
            shutil.copytree(place, into, symlinks=True, dirs_exist_ok=True)
        else:
            into.mkdir(parents=True, exist_ok=True)
            shutil.copy2(place, into)


def mount(place: str, target: Path) -> None:
    """Mounts a file or folder at a place of a stage."""
    if Path(place).is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    subprocess.run(["mount", "--rbind", place, str(target)], check=True)


def freeze(stage: Stage, model: Path) -> None:
    """Makes the file system read-only, with the model at /models and an empty /tmp."""
    (stage.root / "models").mkdir()
    subprocess.run(["mount", "--rbind", str(stage.root), str(stage.root)], check=True)
    mount(str(model), stage.root / "models")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec,nosuid,nodev", "tmpfs", str(stage.root / "tmp")], check=True)
    for place in (stage.root, stage.root / "models"):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(place)], check=True)


def try_server(stage: Stage, text: str) -> None:
    """Starts the image's command, and checks health, a translation, the file system and the end by SIGTERM."""
    command = json.loads(stage.settings["ENTRYPOINT"]) + json.loads(stage.settings["CMD"])
    health = json.loads(re.sub(r"^.*?CMD ", "", stage.settings["HEALTHCHECK"]))
    server = stage.run(command, start_new_session=True)
    began = time.monotonic()
    try:
        while stage.run(health, stderr=subprocess.DEVNULL).wait():
            if server.poll() is not None or time.monotonic() - began > 300:
                raise SystemExit(f"the server is not healthy; exit code {server.poll()}")
            time.sleep(1)
        print(f"healthy after {time.monotonic() - began:.0f} s", flush=True)
        request = urllib.request.Request(
            "http://127.0.0.1:5000/v1/translate",
            json.dumps({"text": [text]}).encode(),
            {"Content-Type": "application/json"},
        )
        print(urllib.request.urlopen(request, timeout=60).read().decode(), flush=True)
        user = re.findall(r"^Uid:\s+(\d+)", Path(f"/proc/{server.pid}/status").read_text(), flags=re.MULTILINE)
        print(f"user {user[0]}; places that it can write: {writable(stage)}", flush=True)
    finally:
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
    if code != 143:
        raise SystemExit(f"exit code {code} after SIGTERM instead of 143")
    print("exit code 143 after SIGTERM")


def writable(stage: Stage) -> str:
    """Returns the folders of the image's file system that its user can write into."""
    look = "find / -xdev -type d -writable 2>/dev/null; find /models /tmp -maxdepth 0 -writable"
    return " ".join(stage.run(["sh", "-c", look], stdout=subprocess.PIPE).communicate()[0].split()) or "none"


def main() -> None:
    """Builds and tries the image in a mount namespace of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True, help="a small Debian")
    parser.add_argument(
        "--mount", action="append", default=[], metavar="FOLDER:PLACE", help="put a folder into every stage"
    )
    parser.add_argument("--model", type=Path, required=True, help="a model directory")
    parser.add_argument("--text", default="A dog runs.")
    parser.add_argument("--work", type=Path, required=True, help="a folder for the stages, that does not exist")
    arguments = parser.parse_args()
    if "IN_NAMESPACE" not in os.environ:
        command = ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv]
        raise SystemExit(subprocess.call(command, env={**os.environ, "IN_NAMESPACE": "1"}))
    arguments.work.mkdir(parents=True)
    stage = build(arguments.base, arguments.work, [tuple(pair.split(":")) for pair in arguments.mount])
    freeze(stage, arguments.model)
    try_server(stage, arguments.text)


if __name__ == "__main__":
    main()
