"""`--from hub`: tables from a stand-in for the package `datasets` and, where it is installed, from the package."""

import json
import sys
from types import SimpleNamespace

import pytest
from fetch_world import PAIRS, as_values, catalogue_of

from transduce.fetch import Unavailable


def rows_of(world, corpus, part, languages):
    """Returns the rows of a part; one that will be cleaned gets a row to drop and a row to mend."""
    columns = [world.texts[corpus][part["files"][language]] for language in languages]
    rows = [dict(zip(languages, row, strict=True)) for row in zip(*columns, strict=True)]
    return rows if part["pairs"] else [*rows, dict.fromkeys(languages, "x\ny"), {languages[0]: " ", languages[1]: "x"}]


class Table:
    def __init__(self, rows):
        self.rows = rows

    def iter(self, batch_size):
        for start in range(0, len(self.rows), 2):
            batch = self.rows[start : start + 2]
            yield {key: [row[key] for row in batch] for key in batch[0]}


@pytest.fixture
def hub(world, monkeypatch):
    """A stand-in for `datasets` with the tables of the small corpora; the fixture is the list of requests."""
    requests = []

    def load_dataset(dataset, config, split, revision):
        requests.append((dataset, config, split))
        for corpus, entry in world.catalogue.as_dictionary()["corpora"].items():
            for part in entry["parts"]:
                table = part["hub"]
                if table and (table["dataset"], table["config"], table["split"]) == requests[-1]:
                    rows = rows_of(world, corpus, part, table["languages"] or list(part["files"]))
                    return Table([{"translation": row} for row in rows] if table["config"] else rows)
        raise FileNotFoundError("no such table")

    stand_in = SimpleNamespace(load_dataset=load_dataset, disable_progress_bars=lambda: None)
    monkeypatch.setitem(sys.modules, "datasets", stand_in)
    return requests


def test_a_corpus_comes_from_the_hub(world, hub):
    parts, _ = world.fetch("wmt14-en-de", "hub")
    assert parts["train"]["dropped"] == {"with an empty side": 1}
    assert parts["train"]["mended"] == 1
    folder = world.out / "wmt14-en-de"
    for file, lines in world.texts["wmt14-en-de"].items():
        more = ["x y"] if file.startswith("train") else []
        assert (folder / file).read_text("utf-8").split("\n") == [*lines, *more, ""]
    assert {(dataset, config) for dataset, config, _ in hub} == {("wmt/wmt14", "de-en")}
    assert not world.server.requests


def test_files_that_the_hub_lacks_are_named_and_can_be_fetched_later(world, hub):
    parts, messages = world.fetch("multi30k", "hub")
    assert list(parts) == ["train", "val", "test_2016_flickr"]
    assert all(part["kept"] == PAIRS for part in parts.values())
    left = "train.fr, val.fr, test_2016_flickr.fr, test_2017_flickr.en, test_2017_flickr.de, test_2017_flickr.fr"
    assert messages[-1] == f"the hub does not have {left}; the same command without --from downloads them"
    assert world.fetch("multi30k", "hub")[1][-2:] == ["nothing to do: every file is complete", messages[-1]]
    world.fetch("multi30k")
    world.holds("multi30k")
    # A fetch of English and German from the hub keeps the manifest entries of the French files.
    (world.out / "multi30k" / "val.en").unlink()
    world.fetch("multi30k", "hub")
    assert world.fetch("multi30k")[1][-1] == "nothing to do: every file is complete"


def test_a_hub_without_answer_raises_unavailable(world, hub, monkeypatch):
    def load_dataset(*_, **__):
        raise ConnectionError("no route")

    monkeypatch.setattr(sys.modules["datasets"], "load_dataset", load_dataset)
    with pytest.raises(Unavailable, match=r"`datasets` cannot load wmt/wmt14, de-en, train: no route"):
        world.fetch("wmt14-en-de", "hub")


def test_a_missing_package_is_named(world, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match=r"--from hub needs the package `datasets`: `pip install '\.\[hub\]'`"):
        world.fetch("wmt14-en-de", "hub")


@pytest.mark.filterwarnings("default")
def test_the_real_package_gives_the_same_files(world, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))  # read when the package is imported
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    pytest.importorskip("datasets", reason="needs the extra hub")
    values = as_values(world.catalogue)
    for name, config in (("multi30k", None), ("wmt14-en-de", "de-en")):
        folder = tmp_path / name
        folder.mkdir()
        for part in values["corpora"][name]["parts"]:
            if table := part.get("hub"):
                rows = rows_of(world, name, {"pairs": 1, **part}, table.get("languages", ["en", "de"]))
                rows = [{"translation": row} for row in rows] if config else rows
                (folder / f"{table['split']}.jsonl").write_text(
                    "".join(f"{json.dumps(row)}\n" for row in rows), "utf-8"
                )
                part["hub"] |= {"dataset": str(folder)} | ({"config": "default"} if config else {})
    local = world._replace(catalogue=catalogue_of(values))
    local.fetch("wmt14-en-de", "hub")
    local.holds("wmt14-en-de")
    assert list(local.fetch("multi30k", "hub")[0]) == ["train", "val", "test_2016_flickr"]
