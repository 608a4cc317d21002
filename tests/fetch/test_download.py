"""One archive from its mirrors: what servers do wrong, and what comes of it."""

import re
import socket

import pytest

from transduce.fetch import Unavailable
from transduce.fetch.catalogue import Archive
from transduce.fetch.download import download

NAME = "wmt14/test-full.tgz"  # with an MD5 and no size
SIZED = "wmt19/dev.tgz"  # with a SHA-256 and a size
BARE = "multi30k/train.en.gz"  # with nothing but gzip's own checksum
ALL = pytest.mark.parametrize("name", [NAME, SIZED, BARE])
CHECKED = pytest.mark.parametrize("name", [NAME, SIZED])


@pytest.fixture
def had(world):
    """Downloads an archive, asserts that it is whole and alone; what was said, and which ranges were asked of whom."""

    def download_it(name, on=None):
        said = []
        path = download(name, (on or world).catalogue.archives[name], world.out, said.append)
        assert path.read_bytes() == world.archives[name]
        assert [path.name for path in path.parent.iterdir()] == [path.name]
        asked, world.server.asked[:] = [(path[1:4], wanted) for path, wanted in world.server.asked], []
        return said, asked

    return download_it


def begun(world, name, count=100):
    """A download of which there are `count` bytes."""
    part = world.out / f"{name}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(world.archives[name][:count])
    return part


@ALL
def test_an_archive_comes_whole_and_is_not_asked_for_again(world, had, name):
    said, asked = had(name)
    assert asked == [("one", None)]
    assert said[0] == f"{name} from {world.server.url}/one/{name}"
    assert re.fullmatch(r"  100% of \S+ \w+, \S+ \w+ a second", said[1])
    assert had(name) == ([], [])


@CHECKED
def test_what_was_begun_is_gone_on_with(world, had, name):
    begun(world, name)
    assert had(name)[1] == [("one", "bytes=100-")]


def test_what_no_checksum_tells_apart_is_begun_anew(world, had):
    begun(world, BARE, 10)
    assert had(BARE)[1] == [("one", None)]


@CHECKED
def test_a_download_that_only_lacked_its_name_is_not_asked_for(world, had, name):
    begun(world, name, None)
    assert had(name)[1] == []


@CHECKED
def test_a_server_that_ignores_ranges_gives_all_of_it_once(world, had, name):
    begun(world, name)
    world.server.faults[f"/one/{name}"] = ["deaf"]
    said, asked = had(name)
    assert asked == [("one", "bytes=100-")]
    assert "  it cannot go on in the middle: from the start" in said


@CHECKED
def test_a_server_that_gives_another_range_is_not_believed(world, had, name):
    begun(world, name)
    world.server.faults[f"/one/{name}"] = [("lie", 1)]
    said, asked = had(name)
    assert asked == [("one", "bytes=100-"), ("two", "bytes=100-")]
    assert "  it gives another range than was asked for" in said


@CHECKED
def test_too_long_a_beginning_is_thrown_away(world, had, name):
    part = begun(world, name, None)
    part.write_bytes(part.read_bytes() + b"more")
    assert had(name)[1][-1] == ("one", None)


@CHECKED
def test_a_broken_body_is_gone_on_with_at_the_same_mirror(world, had, name):
    world.server.faults[f"/one/{name}"] = [("cut", 100), ("cut", 50)]
    said, asked = had(name)
    assert asked == [("one", None), ("one", "bytes=100-"), ("one", "bytes=150-")]
    assert f"  it broke off after 100 of {len(world.archives[name]):,} bytes; asked for the rest" in said


def test_a_mirror_that_gives_nothing_more_is_left_for_the_next_with_what_there_is(world, had):
    world.server.faults[f"/one/{NAME}"] = [("cut", 100), ("cut", 0)]
    assert had(NAME)[1] == [("one", None), ("one", "bytes=100-"), ("two", "bytes=100-")]


def test_a_broken_body_without_a_checksum_goes_to_the_next_mirror(world, had):
    world.server.faults[f"/one/{BARE}"] = [("cut", 10)]
    assert had(BARE)[1] == [("one", None), ("two", None)]


@ALL
def test_a_page_in_the_place_of_an_archive_is_told_and_passed_by(world, had, name):
    world.server.faults[f"/one/{name}"] = [b"<html>We have moved</html>"]
    said, asked = had(name)
    assert asked == [("one", None), ("two", None)]
    reason = {
        NAME: f"what it gives has the md5 .* where {world.catalogue.archives[NAME].checksum[4:]} is expected",
        SIZED: f"it has 26 bytes there where {len(world.archives[SIZED]):,} are expected",
        BARE: "what it gives is no whole gzip file",
    }
    assert any(re.match(f"  {reason[name]}", line) for line in said)


def test_a_page_does_not_cost_what_was_had(world, had):
    begun(world, SIZED)
    world.server.faults[f"/one/{SIZED}"] = [b"<html>" + b"We have moved " * 20]
    assert had(SIZED)[1] == [("one", "bytes=100-"), ("two", "bytes=100-")]


def test_a_wrong_checksum_of_the_right_size_is_thrown_away(world, had):
    content = world.archives[SIZED]
    world.server.faults[f"/one/{SIZED}"] = [content[:-1] + bytes([content[-1] ^ 1])]
    said, asked = had(SIZED)
    assert asked == [("one", None), ("two", None)]
    assert any("what it gives has the sha256" in line for line in said)


def test_a_dead_mirror_is_followed_by_a_living_one(world, had):
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # and no listening: whoever calls is refused
        dead = f"http://127.0.0.1:{unheard.getsockname()[1]}/x.tgz"
        said, asked = had(NAME, world.with_mirrors(NAME, dead, f"{world.server.url}/two/{NAME}"))
    assert asked == [("two", None)]
    assert said[:2] == [f"{NAME} from {dead}", "  Connection refused"]


def test_a_mirror_that_says_nothing_is_dead_after_a_while(world, had, monkeypatch):
    monkeypatch.setattr("transduce.fetch.download.TIMEOUT", 0.2)
    world.server.faults[f"/one/{NAME}"] = [("halt", 0), ("halt", 0)]
    said, asked = had(NAME)
    assert [mirror for mirror, _ in asked] == ["one", "two"]
    assert "  it broke off: no answer in time" in said


def test_where_all_are_dead_each_is_named_with_its_reason_and_nothing_is_lost(world):
    begun(world, SIZED)
    paths = world.paths(SIZED)
    world.server.faults |= {paths[0]: [404], paths[1]: [b"short"] * 2}
    with pytest.raises(Unavailable) as caught:
        download(SIZED, world.catalogue.archives[SIZED], world.out, lambda line: None)
    url = world.server.url
    assert str(caught.value).split("\n") == [
        f"no mirror gives {SIZED}:",
        f"  {url}{paths[0]}: HTTP 404 Not Found",
        f"  {url}{paths[1]}: it has 5 bytes there where {len(world.archives[SIZED]):,} are expected",
    ]
    assert (world.out / f"{SIZED}.part").read_bytes() == world.archives[SIZED][:100]
    assert not (world.out / SIZED).exists()


def test_a_full_disk_is_no_fault_of_the_mirror(world, monkeypatch):
    def full(self, count):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("transduce.fetch.download.Meter.add", full)
    with pytest.raises(OSError, match="No space left"):
        download(NAME, world.catalogue.archives[NAME], world.out, lambda line: None)
    assert [path for path, _ in world.server.asked] == [world.paths(NAME)[0]]


def test_an_archive_that_nothing_can_check_is_no_archive_of_the_catalogue(world):
    values = world.catalogue.as_dictionary()
    values["archives"]["x.tar"] = Archive(mirrors=("https://example.org/x.tar",)).as_dictionary()
    with pytest.raises(ValueError, match=r"x\.tar has no checksum, and is no gzip file"):
        type(world.catalogue).model_validate(values, strict=False)
