"""Every `sh` block of README and the guides runs on a tiny corpus; `sh cluster` blocks have their options checked.

`sh setup` blocks install the package or run `make` and are not run here.
"""

import gzip
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from transduce.commands import app

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs" / "guides").glob("*.md"))]
BLOCK = re.compile(r"^```sh ?(\w*)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
SMALL = """
subwords.size=300 model.d_model=16 model.encoder_layers=1 model.decoder_layers=1 model.feed_forward.d_ff=16
training.steps=4 training.minutes=null training.batch_tokens=2048 training.precision=float32 training.validate_every=4
training.save_every=2 training.log_every=2 decoding.beam=2 decoding.extra_length=4
""".split()


def commands(page: Path, mark: str) -> list[str]:
    blocks = (block for kind, block in BLOCK.findall(page.read_text("utf-8")) if kind == mark)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def run(command: str) -> None:
    """Runs `transduce …` in the current folder with small settings; `> FILE` receives standard output."""
    arguments, _, target = command.partition(" > ")
    program, *words = shlex.split(arguments)
    assert program == "transduce", command
    if words[0] in ("train", "distil"):
        words += [word for change in SMALL for word in ("--set", change)]
    if words[0] == "suggest":
        words[words.index("--minutes") + 1] = "0.15"
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, (command, result.output, result.exception)
    if target:
        Path(target.strip()).write_text(result.stdout, "utf-8")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the guides name, and a trained `runs/mine`."""
    folder = tmp_path_factory.mktemp("guides")
    words = "ant bee cat dog eel fox gnu hen ibis jay kite lark mole newt owl pig".split()
    lines = [" ".join(words[(i * k) % 16] for k in range(1, 3 + i % 5)) for i in range(1, 200)]
    texts = {"train": lines, "valid": lines[:50], "test": lines[8:11]}
    texts |= {"domain": lines[:60], "domain-valid": lines[:2], "domain-test": lines[5:8]}
    for name, part in texts.items():
        (folder / f"{name}.en").write_text("".join(f"{line}\n" for line in part), "utf-8")
        (folder / f"{name}.de").write_text("".join(f"{line.upper()}\n" for line in part), "utf-8")
    (folder / "texts").mkdir()
    for name in ("input.txt", "corpus.en", "texts/one.txt"):
        (folder / name).write_text("".join(f"{line}\n" for line in lines[8:11]), "utf-8")
    (folder / "page.html").write_text(f"<p>{lines[8]} <b>{lines[9]}</b></p>", "utf-8")
    (folder / "messages.json").write_text(f'{{"key": "{lines[10]}"}}', "utf-8")
    shutil.copyfile(ROOT / "recipes" / "own-data.yaml", folder / "recipe.yaml")
    pages = {"trees": "parsing", "domain": "fine-tuning", "both": "several-directions", "augmented": "back-translation"}
    pages |= {"few": "few-texts"}
    for name, page in pages.items():
        text = (ROOT / "docs" / "guides" / f"{page}.md").read_text("utf-8")
        (folder / f"{name}.yaml").write_text(text.split("```yaml\n")[1].split("```")[0], "utf-8")
    (folder / "mono.de.gz").write_bytes(gzip.compress((folder / "train.de").read_bytes()))
    terms = (ROOT / "docs" / "guides" / "terms.md").read_text("utf-8")
    (folder / "terms.tsv").write_text(
        "".join(f"{line[4:]}\n" for line in terms.splitlines() if line.startswith("    "))
    )
    trees = [f"(S (NP (DT the) (NN {noun})) (VP (VBD saw) (NP (DT a) (NN mole))))\n" for noun in words]
    (folder / "trees").mkdir()
    for name in ("trees/train", "trees/validation", "trees/test", "gold.txt"):
        (folder / name).write_text("".join(trees), "utf-8")
    here = Path.cwd()
    os.chdir(folder)
    try:
        run("transduce train recipe.yaml --out runs/mine")
    finally:
        os.chdir(here)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_the_page_runs(
    page: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    shutil.copytree(trained, folder)
    monkeypatch.chdir(folder)
    for command in commands(page, ""):
        run(command)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_for_clusters_name_options_that_exist(page: Path) -> None:
    for command in commands(page, "cluster"):
        if "transduce" not in command:
            assert command.startswith("pip install "), command
            continue
        verb, *words = shlex.split(command[command.index("transduce") :])[1:]
        result = CliRunner().invoke(app, [verb, "--help"], terminal_width=200)
        assert result.exit_code == 0, command
        for option in (word for word in words if word.startswith("--")):
            assert re.search(rf"{option}\b", result.output), option


def test_every_block_of_shell_is_marked_by_a_known_word_and_commands_are_found() -> None:
    for page in PAGES:
        assert {kind for kind, _ in BLOCK.findall(page.read_text("utf-8"))} <= {"", "setup", "cluster"}, page
    assert sum(len(commands(page, "")) for page in PAGES) >= 18
