"""Signals are collected or raised, and ignored signals stay ignored."""

import os
import signal

import pytest

from transduce.runtime.signals import Interrupted, collect_signals, raise_on_signals

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture
def ignored(request):
    """A signal that the process ignores, as background jobs of a shell ignore SIGINT."""
    before = signal.signal(request.param, signal.SIG_IGN)
    yield request.param
    signal.signal(request.param, before)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_collected_and_the_handlers_are_restored(number):
    before = [signal.getsignal(name) for name in SIGNALS]
    with collect_signals() as caught:
        os.kill(os.getpid(), number)
        assert caught == [number]
    assert [signal.getsignal(name) for name in SIGNALS] == before


@pytest.mark.parametrize("ignored", SIGNALS, indirect=True)
def test_ignored_signals_stay_ignored(ignored):
    with collect_signals() as caught:
        os.kill(os.getpid(), ignored)
    with raise_on_signals():
        os.kill(os.getpid(), ignored)
    assert caught == []


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_raises_interrupted(number):
    with pytest.raises(Interrupted) as raised, raise_on_signals():
        os.kill(os.getpid(), number)
    assert raised.value.number == number
