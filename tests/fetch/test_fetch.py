"""Fetching end to end: from a server or a local folder to the files that the recipes name."""

import gzip
import io
import shutil
import signal
import subprocess
import sys
import tarfile
from collections import namedtuple
from pathlib import Path

import pytest
from fetch_world import PAIRS, archive_of, as_member, tar

import transduce.fetch
from transduce.corpus.corpus_kinds import files_of
from transduce.fetch import Unavailable
from transduce.recipe.recipe import load
from transduce.storage.locks import exclusive_lock

RECIPES = Path(__file__).parents[2] / "recipes"
CORPORA = ["wmt14-en-de", "wmt14-en-fr", "multi30k"]
NAMED = {corpus: sorted(RECIPES.glob(f"{corpus}*.yaml")) for corpus in CORPORA}
EUROPARL = "wmt13/training-parallel-europarl-v7.tgz"
CRAWL = "wmt13/training-parallel-commoncrawl.tgz"


@pytest.mark.parametrize("corpus", CORPORA)
def test_fetched_files_are_those_that_the_recipes_name(world, corpus, monkeypatch):
    parts, _ = world.fetch(corpus)
    world.holds(corpus)
    monkeypatch.setenv("TRANSDUCE_DATA", str(world.out))
    named = set()
    for recipe in NAMED[corpus]:
        data = load(recipe).data
        named |= {path for part in (*data.train, *data.validations, *data.test.values()) for path in files_of(part)}
    assert {path.resolve() for path in named} == {(world.out / corpus / name).resolve() for name in world.texts[corpus]}
    assert [part["kept"] for part in parts.values()][1:] == [PAIRS] * (len(parts) - 1)


def test_pairs_with_an_empty_side_are_dropped_and_counted(world):
    parts, messages = world.fetch("wmt14-en-de")
    sections = 3
    assert parts["train"]["read"] == sections * (PAIRS + 2)
    assert parts["train"]["kept"] == sections * (PAIRS + 1)
    assert parts["train"]["dropped"] == {"with an empty side": sections}
    assert f"{world.out}/wmt14-en-de/train: 12 pairs kept, 3 dropped with an empty side" in messages


def test_a_second_fetch_downloads_nothing_and_reports_it(world):
    first, _ = world.fetch("wmt14-en-de")
    requests = len(world.server.requests)
    second, messages = world.fetch("wmt14-en-de")
    assert second == first
    assert len(world.server.requests) == requests
    assert messages[-1] == "nothing to do: every file is complete"


def test_corpora_share_archives(world):
    world.fetch("wmt14-en-de")
    world.server.requests.clear()
    world.fetch("wmt14-en-fr")
    world.holds("wmt14-en-fr")
    assert sorted(path for path, _ in world.server.requests) == [
        "/one/wmt10/training-giga-fren.tar",
        "/one/wmt13/training-parallel-un.tgz",
    ]


def test_a_deleted_file_is_restored_from_the_archives(world):
    world.fetch("multi30k")
    (world.out / "multi30k" / "val.de").unlink()
    world.server.requests.clear()
    world.fetch("multi30k")
    world.holds("multi30k")
    assert not world.server.requests


def test_a_damaged_archive_is_downloaded_again(world):
    world.fetch("wmt14-en-de")
    shutil.rmtree(world.out / "wmt14-en-de")
    (world.out / "archives" / EUROPARL).write_bytes(world.archives[EUROPARL][:-1] + b"x")
    world.server.requests.clear()
    _, messages = world.fetch("wmt14-en-de")
    world.holds("wmt14-en-de")
    assert world.server.requests == [(f"/one/{EUROPARL}", None)]
    assert any("it is downloaded again" in line for line in messages)


@pytest.mark.parametrize("ours", [False, True], ids=["somebody's", "changed"])
def test_a_file_of_the_user_is_never_overwritten(world, ours):
    path = world.out / "wmt14-en-de" / "train.en"
    if ours:
        world.fetch("wmt14-en-de")
        (world.out / "wmt14-en-de" / "train.de").unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine\n", "utf-8")
    with pytest.raises(ValueError, match=f"{path} exists and is not as `fetch` has written it"):
        world.fetch("wmt14-en-de")
    assert path.read_text("utf-8") == "mine\n"


def test_recorded_files_are_moved_into_place_after_a_crash(world):
    world.fetch("wmt14-en-de")
    folder = world.out / "wmt14-en-de"
    (folder / ".fetching").mkdir()
    for name in ("train.de", "newstest2013.en"):  # recorded, and not yet moved into place
        (folder / name).replace(folder / ".fetching" / name)
    shutil.rmtree(world.out / "archives")
    world.server.requests.clear()
    world.fetch("wmt14-en-de")
    world.holds("wmt14-en-de")
    assert not world.server.requests


def test_no_file_is_in_place_before_its_part_is_complete(world):
    shutil.copytree(archives_in(world, world.out.parent / "own"), world.out / "archives")
    archive = world.out / "archives" / "wmt14/training-parallel-nc-v9.tgz"
    name = "training/news-commentary-v9.de-en"
    broken = archive_of("x.tgz", {f"{name}.en": b"a\nb\n", f"{name}.de": b"a\n"})
    archive.write_bytes(broken)
    with pytest.raises(ValueError, match=r"news-commentary-v9.de-en.en has 2 lines and .*de-en.de has 1"):
        world.unchecked("wmt14/training-parallel-nc-v9.tgz").fetch("wmt14-en-de")
    assert [path.name for path in (world.out / "wmt14-en-de").iterdir()] == [".fetching"]
    archive.write_bytes(world.archives["wmt14/training-parallel-nc-v9.tgz"])
    world.fetch("wmt14-en-de")
    world.holds("wmt14-en-de")


@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_fetch_resumes_in_the_middle_of_an_archive(world, how, code):
    half = len(world.archives[CRAWL]) // 2
    world.server.faults[f"/one/{CRAWL}"] = [("halt", half)]
    run = (
        "import sys; from pathlib import Path; import transduce.fetch.catalogue; from transduce.commands import main\n"
        "transduce.fetch.catalogue.CATALOGUE = Path(sys.argv[2])\n"
        "main(['fetch', 'wmt14-en-de', '--out', sys.argv[1]])"
    )
    child = subprocess.Popen([sys.executable, "-c", run, world.out, world.written()], stderr=subprocess.PIPE)
    assert world.server.halted.wait(30)
    part = world.out / "archives" / f"{CRAWL}.part"
    while not part.exists() or part.stat().st_size < half:
        assert child.poll() is None
    with pytest.raises(ValueError, match=r"another fetch is at work in .*wmt14-en-de; wait for its end"):
        world.fetch("wmt14-en-de")
    with pytest.raises(ValueError, match=r"another fetch is at work in .*archives/wmt13"):
        world.fetch("wmt14-en-fr")
    child.send_signal(how)
    assert b"Traceback" not in child.communicate()[1]
    assert child.returncode == code
    world.server.requests.clear()
    world.fetch("wmt14-en-de")
    world.holds("wmt14-en-de")
    assert world.server.requests[0] == (f"/one/{CRAWL}", f"bytes={half}-")
    assert f"/one/{EUROPARL}" not in dict(world.server.requests)


def test_a_locked_folder_raises_without_a_request(world):
    with (
        exclusive_lock(world.out / "archives" / "wmt13", "fetch"),
        pytest.raises(ValueError, match="another fetch is at work"),
    ):
        world.fetch("wmt14-en-de")
    assert not world.server.requests


def test_a_full_disk_raises_before_any_request(world, monkeypatch):
    sizes = [archive.bytes or 0 for name, archive in world.catalogue.archives.items() if name in (EUROPARL, CRAWL)]
    news = world.catalogue.archives["wmt14/training-parallel-nc-v9.tgz"].bytes
    needed = sum(sizes) + news + 2 * 1000
    for free in (needed - 1, needed):
        usage = namedtuple("usage", "free")(free)
        monkeypatch.setattr(transduce.fetch.shutil, "disk_usage", lambda path, usage=usage: usage)
        if free < needed:
            with pytest.raises(ValueError, match=r"free, and about .* are needed; free disk space"):
                world.fetch("wmt14-en-de")
            assert not world.server.requests
        else:
            world.fetch("wmt14-en-de")


def archives_in(world, folder, flat=False):
    """Writes the small archives to a folder, in subfolders as `fetch` keeps them, or side by side."""
    for name, content in world.archives.items():
        path = folder / (Path(name).name if flat else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("form", ["kept", "flat", "unpacked"])
def test_a_local_folder_needs_no_request(world, corpus, form):
    own = world.out.parent / "own"
    if form == "unpacked":
        for name, content in world.archives.items():
            if name.startswith("multi30k"):
                path = own / Path(name).stem
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(gzip.decompress(content))
            else:
                with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                    archive.extractall(own)
    else:
        archives_in(world, own, flat=form == "flat")
    before = {path: path.stat().st_mtime_ns for path in own.rglob("*")}
    world.fetch(corpus, str(own))
    world.holds(corpus)
    assert not world.server.requests
    assert {path: path.stat().st_mtime_ns for path in own.rglob("*")} == before


def test_a_local_folder_without_an_archive_raises_with_every_choice(world):
    own = archives_in(world, world.out.parent / "own")
    (own / EUROPARL).write_bytes(b"another")
    (own / "europarl-v7/de-en.tgz").unlink()
    with pytest.raises(ValueError, match=r"Europarl v7 could not be fetched") as caught:
        world.fetch("wmt14-en-de", str(own))
    assert f"{own / EUROPARL} has 7 bytes where" in str(caught.value)
    assert f"{own} has neither de-en.tgz nor europarl-v7.de-en.en" in str(caught.value)
    assert "--from DIR downloads nothing" in str(caught.value)
    assert not world.server.requests


def test_a_missing_folder_raises(world, tmp_path):
    with pytest.raises(ValueError, match=r"--from .*/nowhere: there is no such folder"):
        world.fetch("multi30k", str(tmp_path / "nowhere"))


def test_the_next_choice_is_used_when_the_first_fails(world):
    for path in world.paths(EUROPARL):
        world.server.faults[path] = [500] * 9
    _, messages = world.fetch("wmt14-en-de")
    world.holds("wmt14-en-de")
    assert "Europarl v7: trying another archive" in messages


def test_error_names_every_mirror_with_its_reason(world):
    for archive, status in (("wmt14/test-full.tgz", 404), ("wmt19/dev.tgz", 503)):
        for path in world.paths(archive):
            world.server.faults[path] = [status] * 9
    with pytest.raises(Unavailable) as caught:
        world.fetch("wmt14-en-de")
    message = str(caught.value)
    assert message.startswith("newstest2014 could not be fetched.")
    for archive, reason in (("wmt14/test-full.tgz", "HTTP 404 Not Found"), ("wmt19/dev.tgz", "HTTP 503")):
        for path in world.paths(archive):
            assert f"{world.server.url}{path}: {reason}" in message
    assert "to resume" in message
    assert "--from DIR" in message
    # All downloads come before the first text is written.
    assert not (world.out / "wmt14-en-de" / "train.en").exists()
    world.server.faults.clear()
    world.server.requests.clear()
    world.fetch("wmt14-en-de")
    assert [path for path, _ in world.server.requests] == ["/one/wmt14/test-full.tgz"]


def test_a_test_set_of_wrong_length_raises(world):
    lines = [["a"] * (PAIRS + 1)] * 3
    names = ["val.en", "val.de", "val.fr"]
    for name, text in zip(names, lines, strict=True):
        for path in world.paths(f"multi30k/{name}.gz"):
            world.server.files[path] = as_member("x.gz", text)
    with pytest.raises(ValueError, match=r"val has 4 pairs where 3 are expected"):
        world.fetch("multi30k")
    assert not list((world.out / "multi30k").glob("val.*"))


def test_a_hostile_archive_writes_nowhere(world):
    evil = tar({"../../evil": b"x", "/tmp/evil-fetch": b"x", "training/../../evil": b"x"}, "w:gz")
    for name in (EUROPARL, "europarl-v7/de-en.tgz"):
        for path in world.paths(name):
            world.server.files[path] = evil
    with pytest.raises(Unavailable, match="it is not the expected archive"):
        world.unchecked(EUROPARL).fetch("wmt14-en-de")
    assert not list(world.out.parent.rglob("*evil*"))
    assert not Path("/tmp/evil-fetch").exists()
