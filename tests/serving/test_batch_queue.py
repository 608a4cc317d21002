"""The queue of a model: requests share groups, take turns, leave, and are answered before it closes."""

import threading
import time
from concurrent.futures import wait

import pytest

from transduce.search.cancellation import SearchStoppedError
from transduce.serving.batch_queue import BatchQueue, SearchRequest, Ticket
from transduce.translation.search_method import search_method
from transduce.translation.translator import Translator

LINES = ["cat dog", "", "the owl saw a mole and an ibis near the lark", "pig"]


class GatedQueue(BatchQueue):
    """A queue whose searches wait for a gate; records the texts of each group."""

    def __init__(self):
        self.gate, self.begun = threading.Event(), threading.Event()
        self.groups = []
        super().__init__()

    def _search(self, request, sentences, check):
        self.groups.append([sentence.text for sentence in sentences])
        self.begun.set()
        while not self.gate.wait(0.01):
            check()
        super()._search(request, sentences, check)


@pytest.fixture
def queue():
    queue = GatedQueue()
    yield queue
    queue.gate.set()
    queue.close()


@pytest.fixture(scope="module")
def beam(translator):
    return SearchRequest(translator, search_method(translator.decoding))


def test_requests_that_wait_share_a_group_and_each_gets_its_own(queue, beam, translator):
    first = queue.submit(beam, ["fox"], None, Ticket(60))
    queue.begun.wait(60)
    others = [queue.submit(beam, [line, "gnu"], ["", "eht"], Ticket(60)) for line in LINES]
    greedy = SearchRequest(translator, search_method(translator.decoding, greedy=True))
    alone = queue.submit(greedy, ["jay kite"], None, Ticket(60))
    queue.gate.set()
    expected = translator.translate_lines([*LINES, "fox"], beam.method)
    assert first[0].result(60)[0].text == expected[-1][0].text
    for futures, best in zip(others, expected, strict=False):
        assert futures[0].result(60)[0].text == best[0].text
        assert futures[0].result(60)[0].score == pytest.approx(best[0].score, abs=1e-5)
        assert futures[1].result(60)[0].text.startswith("eht")
    assert alone[0].result(60)[0] == translator.translate_records("jay kite", greedy=True)
    shared = [line for line in LINES if line] + ["gnu"] * 4
    assert [sorted(group) for group in queue.groups] == [["fox"], sorted(shared), ["jay kite"]]


def test_requests_with_other_source_tags_share_no_group(queue, beam, translator):
    other = beam._replace(translator=translator.with_source_tags((5,)))
    held = queue.submit(beam, ["fox"], None, Ticket(60))
    queue.begun.wait(60)
    futures = [queue.submit(request, ["cat dog"], None, Ticket(60))[0] for request in (beam, other, beam)]
    queue.gate.set()
    wait([*held, *futures], 60)
    assert queue.groups == [["fox"], ["cat dog"] * 2, ["cat dog"]]
    assert futures[1].result()[0].text == other.translator.translate("cat dog")


def test_a_short_request_does_not_wait_for_a_long_one(queue, beam):
    held = queue.submit(beam, ["fox"], None, Ticket(60))
    queue.begun.wait(60)
    long = queue.submit(beam, ["the owl saw a mole and an ibis"] * 300, None, Ticket(60))
    short = queue.submit(beam, ["cat dog"], None, Ticket(60))
    queue.gate.set()
    wait([*held, *long, *short], 60)
    assert "cat dog" in queue.groups[1]
    assert 50 < len(queue.groups[1]) < 250
    assert sum(map(len, queue.groups)) == 302


def test_prefixes_count_in_the_sizes_of_groups_and_batches(queue, beam, translator, monkeypatch):
    monkeypatch.setattr("transduce.serving.batch_queue.GROUP_TOKENS", 20)
    texts, prefixes = ["cat"] * 4, [" ".join(["tac"] * 9)] * 4
    held = queue.submit(beam, ["fox"], None, Ticket(60))
    queue.begun.wait(60)
    forced = queue.submit(beam, texts, prefixes, Ticket(60))
    queue.gate.set()
    wait([*held, *forced], 60)
    assert queue.groups == [["fox"], ["cat"] * 2, ["cat"] * 2]
    batches = translator.batches(texts, beam.method, prefixes, batch_tokens=20)
    assert [len(batch.sources) for batch in batches] == [2, 2]


def test_a_search_stops_when_nobody_waits_for_it_and_the_next_begins(queue, beam, translator):
    ticket, late = Ticket(60), Ticket(60)
    (left,) = queue.submit(beam, ["fox"], None, ticket)
    queue.begun.wait(60)
    (dropped,) = queue.submit(beam, ["gnu"], None, late)
    late.cancel("the client has left")
    ticket.cancel("the client has left")
    with pytest.raises(SearchStoppedError, match="nobody waits"):
        left.result(60)
    with pytest.raises(SearchStoppedError, match="the client has left"):
        ticket.result(left)
    queue.gate.set()
    (served,) = queue.submit(beam, ["cat dog"], None, Ticket(60))
    assert served.result(60)[0].text == translator.translate("cat dog")
    assert not dropped.done()  # never searched, since nobody waits
    assert queue.groups == [["fox"], ["cat dog"]]


def test_a_request_waits_no_longer_than_its_time(queue, beam):
    start, ticket = time.monotonic(), Ticket(0.3)
    (future,) = queue.submit(beam, ["fox"], None, ticket)
    with pytest.raises(SearchStoppedError, match=r"did not end within 0.3 seconds"):
        ticket.result(future)
    assert time.monotonic() - start < 30
    assert not ticket.is_live


def test_an_error_of_a_search_reaches_every_request_of_the_group_and_no_other(beam, translator, monkeypatch):
    queue = BatchQueue()
    monkeypatch.setattr(Translator, "translate_by_halves", lambda *_: 1 / 0)
    futures = queue.submit(beam, ["fox", "gnu"], None, Ticket(60))
    for future in futures:
        with pytest.raises(ZeroDivisionError):
            future.result(60)
    monkeypatch.undo()
    (future,) = queue.submit(beam, ["fox"], None, Ticket(60))
    assert future.result(60)[0].text == translator.translate("fox")
    queue.close()


def test_closing_answers_what_waits_and_takes_nothing_more(beam, translator):
    queue = GatedQueue()
    futures = [queue.submit(beam, [line], None, Ticket(60))[0] for line in ("fox", "gnu")]
    queue.gate.set()
    queue.close()
    expected = translator.translate(["fox", "gnu"])
    assert [future.result(0)[0].text for future in futures] == expected
    assert not queue.is_working
    with pytest.raises(SearchStoppedError, match="the server is stopping"):
        queue.submit(beam, ["fox"], None, Ticket(60))
