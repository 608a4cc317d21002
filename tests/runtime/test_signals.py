"""Being asked to stop: what is heard, and what is for another."""

import os
import signal

import pytest

from transduce.runtime.signals import Interrupted, collect_signals, raise_on_signals

ASKED = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture
def ignored(request):
    """A signal that is ignored, as a shell has SIGINT ignored by what it starts in the background."""
    before = signal.signal(request.param, signal.SIG_IGN)
    yield request.param
    signal.signal(request.param, before)


@pytest.mark.parametrize("number", ASKED)
def test_a_signal_is_noted_and_the_handlers_are_as_before(number):
    before = [signal.getsignal(asked) for asked in ASKED]
    with collect_signals() as caught:
        os.kill(os.getpid(), number)
        assert caught == [number]
    assert [signal.getsignal(asked) for asked in ASKED] == before


@pytest.mark.parametrize("ignored", ASKED, indirect=True)
def test_what_is_ignored_stays_so(ignored):
    with collect_signals() as caught:
        os.kill(os.getpid(), ignored)
    with raise_on_signals():
        os.kill(os.getpid(), ignored)
    assert caught == []


@pytest.mark.parametrize("number", ASKED)
def test_what_is_at_work_is_ended(number):
    with pytest.raises(Interrupted) as raised, raise_on_signals():
        os.kill(os.getpid(), number)
    assert raised.value.number == number
