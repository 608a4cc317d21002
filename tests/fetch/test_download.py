"""Downloads of an archive from mirrors with all kinds of faults."""

import re
import socket

import pytest

from log_records import logged_lines
from transduce.fetch import Unavailable
from transduce.fetch import download as fetch_download
from transduce.fetch.catalogue import Archive
from transduce.fetch.download import download

NAME = "wmt14/test-full.tgz"  # with an MD5 and no size
SIZED = "wmt19/dev.tgz"  # with a SHA-256 and a size
BARE = "multi30k/train.en.gz"  # with nothing but gzip's own checksum
ALL = pytest.mark.parametrize("name", [NAME, SIZED, BARE])
CHECKED = pytest.mark.parametrize("name", [NAME, SIZED])


@pytest.fixture
def download_archive(world):
    """A function that downloads an archive, asserts that it is intact, and returns messages and requests."""

    def download_from(name, on=None):
        with logged_lines() as messages:
            path = download(name, (on or world).catalogue.archives[name], world.out)
        assert path.read_bytes() == world.archives[name]
        assert [path.name for path in path.parent.iterdir()] == [path.name]
        requests, world.server.requests[:] = [(path[1:4], range_) for path, range_ in world.server.requests], []
        return messages, requests

    return download_from


def write_part(world, name, count=100):
    """Writes a `.part` file with the first `count` bytes of an archive."""
    part = world.out / f"{name}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(world.archives[name][:count])
    return part


@ALL
def test_an_archive_is_downloaded_once(world, download_archive, name):
    messages, requests = download_archive(name)
    assert requests == [("one", None)]
    assert messages[0] == f"{name} from {world.server.url}/one/{name}"
    assert re.fullmatch(r"  100% of \S+ \w+, \S+ \w+ a second", messages[1])
    assert download_archive(name) == ([], [])


@ALL
def test_a_download_that_another_program_has_replaced_is_not_taken(world, name, monkeypatch):
    part, request = world.out / f"{name}.part", fetch_download._request

    def replace_after(*arguments):
        request(*arguments)
        part.rename(part.with_name("aside"))
        part.write_bytes(world.archives[name])

    monkeypatch.setattr(fetch_download, "_request", replace_after)
    with pytest.raises(OSError, match=f"{part} was replaced by another program"):
        download(name, world.catalogue.archives[name], world.out)
    assert not (world.out / name).exists()


@CHECKED
def test_a_partial_download_is_resumed(world, download_archive, name):
    write_part(world, name)
    assert download_archive(name)[1] == [("one", "bytes=100-")]


def test_a_partial_download_without_checksum_starts_over(world, download_archive):
    write_part(world, BARE, 10)
    assert download_archive(BARE)[1] == [("one", None)]


@CHECKED
def test_a_complete_part_file_needs_no_request(world, download_archive, name):
    write_part(world, name, None)
    assert download_archive(name)[1] == []


@CHECKED
def test_a_server_that_ignores_ranges_sends_the_whole_file_once(world, download_archive, name):
    write_part(world, name)
    world.server.faults[f"/one/{name}"] = ["deaf"]
    messages, requests = download_archive(name)
    assert requests == [("one", "bytes=100-")]
    assert "  the server cannot resume a download; starting over" in messages


@CHECKED
def test_a_wrong_range_goes_to_the_next_mirror(world, download_archive, name):
    write_part(world, name)
    world.server.faults[f"/one/{name}"] = [("lie", 1)]
    messages, requests = download_archive(name)
    assert requests == [("one", "bytes=100-"), ("two", "bytes=100-")]
    assert "  the server sent another range than requested" in messages


@CHECKED
def test_a_part_file_that_is_too_long_is_discarded(world, download_archive, name):
    part = write_part(world, name, None)
    part.write_bytes(part.read_bytes() + b"more")
    assert download_archive(name)[1][-1] == ("one", None)


@CHECKED
def test_a_broken_connection_resumes_at_the_same_mirror(world, download_archive, name):
    world.server.faults[f"/one/{name}"] = [("cut", 100), ("cut", 50)]
    messages, requests = download_archive(name)
    assert requests == [("one", None), ("one", "bytes=100-"), ("one", "bytes=150-")]
    size = len(world.archives[name])
    assert f"  the connection broke off after 100 of {size:,} bytes; requesting the rest" in messages


def test_the_next_mirror_resumes_after_a_mirror_that_sends_no_more(world, download_archive):
    world.server.faults[f"/one/{NAME}"] = [("cut", 100), ("cut", 0)]
    assert download_archive(NAME)[1] == [("one", None), ("one", "bytes=100-"), ("two", "bytes=100-")]


def test_a_broken_connection_without_checksum_goes_to_the_next_mirror(world, download_archive):
    world.server.faults[f"/one/{BARE}"] = [("cut", 10)]
    assert download_archive(BARE)[1] == [("one", None), ("two", None)]


@ALL
def test_a_web_page_instead_of_the_archive_is_reported_and_skipped(world, download_archive, name):
    world.server.faults[f"/one/{name}"] = [b"<html>We have moved</html>"]
    messages, requests = download_archive(name)
    assert requests == [("one", None), ("two", None)]
    reason = {
        NAME: f"the downloaded file has the md5 .* where {world.catalogue.archives[NAME].checksum[4:]} is expected",
        SIZED: f"the server's file has 26 bytes where {len(world.archives[SIZED]):,} are expected",
        BARE: "the downloaded file is not a complete gzip file",
    }
    assert any(re.match(f"  {reason[name]}", line) for line in messages)


def test_a_web_page_does_not_replace_downloaded_bytes(world, download_archive):
    write_part(world, SIZED)
    world.server.faults[f"/one/{SIZED}"] = [b"<html>" + b"We have moved " * 20]
    assert download_archive(SIZED)[1] == [("one", "bytes=100-"), ("two", "bytes=100-")]


def test_more_bytes_than_expected_are_not_written(world, download_archive, monkeypatch):
    monkeypatch.setattr("transduce.fetch.download.CHUNK", 64)
    world.server.faults[f"/one/{SIZED}"] = ["more", "more"]
    messages, requests = download_archive(SIZED)
    size = len(world.archives[SIZED])
    assert requests[-1] == ("two", None)
    assert any(f"the server sends more than the {size:,} bytes that are expected" in line for line in messages)


def test_a_file_with_wrong_checksum_is_discarded(world, download_archive):
    content = world.archives[SIZED]
    world.server.faults[f"/one/{SIZED}"] = [content[:-1] + bytes([content[-1] ^ 1])]
    messages, requests = download_archive(SIZED)
    assert requests == [("one", None), ("two", None)]
    assert any("the downloaded file has the sha256" in line for line in messages)


def test_an_unreachable_mirror_is_skipped(world, download_archive):
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # without listening, so connections are refused
        dead = f"http://127.0.0.1:{unheard.getsockname()[1]}/x.tgz"
        messages, requests = download_archive(NAME, world.with_mirrors(NAME, dead, f"{world.server.url}/two/{NAME}"))
    assert requests == [("two", None)]
    assert messages[:2] == [f"{NAME} from {dead}", "  Connection refused"]


def test_a_silent_mirror_times_out(world, download_archive, monkeypatch):
    monkeypatch.setattr("transduce.fetch.download.TIMEOUT", 2)
    world.server.faults[f"/one/{NAME}"] = [("halt", 0), ("halt", 0)]
    messages, requests = download_archive(NAME)
    assert [mirror for mirror, _ in requests] == ["one", "two"]
    assert "  the connection broke off: no answer for 2 seconds" in messages


def test_error_names_every_mirror_and_downloaded_bytes_stay(world):
    write_part(world, SIZED)
    paths = world.paths(SIZED)
    world.server.faults |= {paths[0]: [404], paths[1]: [b"short"] * 2}
    with pytest.raises(Unavailable) as caught:
        download(SIZED, world.catalogue.archives[SIZED], world.out)
    url = world.server.url
    assert str(caught.value).split("\n") == [
        f"every mirror of {SIZED} failed:",
        f"  {url}{paths[0]}: HTTP 404 Not Found",
        f"  {url}{paths[1]}: the server's file has 5 bytes where {len(world.archives[SIZED]):,} are expected",
    ]
    assert (world.out / f"{SIZED}.part").read_bytes() == world.archives[SIZED][:100]
    assert not (world.out / SIZED).exists()


def test_a_full_disk_is_not_blamed_on_the_mirror(world, monkeypatch):
    def full(self, count):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("transduce.fetch.download.Meter.add", full)
    with pytest.raises(OSError, match="No space left"):
        download(NAME, world.catalogue.archives[NAME], world.out)
    assert [path for path, _ in world.server.requests] == [world.paths(NAME)[0]]


def test_an_archive_without_any_checksum_is_not_allowed(world):
    values = world.catalogue.as_dictionary()
    values["archives"]["x.tar"] = Archive(mirrors=("https://example.org/x.tar",)).as_dictionary()
    with pytest.raises(ValueError, match=r"x\.tar has no checksum, and is not a gzip file"):
        type(world.catalogue).model_validate(values, strict=False)


@ALL
@pytest.mark.parametrize("content", [b"gold", None], ids=["file", "missing"])
def test_a_planted_link_is_not_followed(world, download_archive, tmp_path, name, content):
    treasure = tmp_path / "treasure"
    if content:
        treasure.write_bytes(content)
    part = write_part(world, name)
    part.unlink()
    part.symlink_to(treasure)
    assert download_archive(name)[1] == [("one", None)]
    assert (treasure.read_bytes() if treasure.exists() else None) == content
