"""The Dockerfile: no root, pinned versions, copied files that exist, and no package index by name."""

import json
import re
from pathlib import Path

from typer.testing import CliRunner

from transduce.commands import app

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text("utf-8")
LINES = re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
INSTRUCTIONS = [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in LINES if line)]
START = max(number for number, (name, _) in enumerate(INSTRUCTIONS) if name == "FROM")
FINAL = INSTRUCTIONS[START:]


def texts(name: str, instructions: list[tuple[str, str]] = INSTRUCTIONS) -> list[str]:
    return [text for kind, text in instructions if kind == name]


def test_the_server_is_not_root_and_has_no_installer() -> None:
    (user,) = texts("USER", FINAL)
    assert int(user) > 0
    assert any(f"--uid {user} " in step for step in texts("RUN", FINAL))
    order = [name for name, _ in FINAL]
    assert order.index("USER") > max(number for number, name in enumerate(order) if name == "RUN")
    assert "--without-pip" in TEXT
    assert not re.search("apt|gcc|build-essential", TEXT)


def test_every_installation_is_pinned_and_names_no_index() -> None:
    installations = [step for step in texts("RUN") if " install " in step]
    assert installations
    assert all("--constraint constraints.txt" in step for step in installations)
    assert not re.search(r"https?://(?!127\.0\.0\.1)|index-url", TEXT)


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    rules = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert rules[0] == "*"
    copied = [source for text in texts("COPY") if "--from" not in text for source in text.split()[:-1]]
    assert sorted(copied) == sorted(rule[1:] for rule in rules if rule.startswith("!"))
    assert all((ROOT / source).exists() for source in copied)


def test_the_command_is_the_server_at_the_port_whose_health_is_checked() -> None:
    (entry,), (command,), (port,) = (texts(name, FINAL) for name in ("ENTRYPOINT", "CMD", "EXPOSE"))
    assert json.loads(entry) == ["transduce"]
    verb, *options = json.loads(command)
    shown = CliRunner().invoke(app, [verb, "--help"], terminal_width=200).output
    assert verb == "serve"
    assert f"default: {port}" in shown
    assert all(option in shown for option in options if option.startswith("--"))
    assert f"127.0.0.1:{port}/ready" in texts("HEALTHCHECK", FINAL)[0]


def test_the_guide_shows_the_image() -> None:
    guide = (ROOT / "docs" / "serving.md").read_text("utf-8")
    assert "docker build" in guide
    assert "--read-only --tmpfs /tmp" in guide
