"""Signals are collected or raised, and ignored signals stay ignored."""

import os
import signal
from unittest.mock import Mock

import pytest

from transduce.run.train import _close_group
from transduce.runtime.signals import (
    Interrupted,
    StoppedTogether,
    collect_signals,
    raise_on_signals,
    raise_on_sigterm,
)

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


def test_sigterm_raises_interrupted_as_sigint_raises_keyboard_interrupt():
    before = [signal.getsignal(name) for name in SIGNALS]
    with pytest.raises(Interrupted) as raised, raise_on_sigterm():
        os.kill(os.getpid(), signal.SIGTERM)
    assert raised.value.number == signal.SIGTERM
    with pytest.raises(KeyboardInterrupt), raise_on_sigterm():
        os.kill(os.getpid(), signal.SIGINT)
    assert [signal.getsignal(name) for name in SIGNALS] == before


def test_a_handler_of_sigterm_stays():
    caught = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: caught.append(number))
    try:
        with raise_on_sigterm():
            os.kill(os.getpid(), signal.SIGTERM)
        assert caught == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(("processes", "is_set"), [("1", True), ("2", False)])
def test_one_of_several_processes_is_killed_by_sigterm(monkeypatch, processes, is_set):
    monkeypatch.setenv("WORLD_SIZE", processes)
    with raise_on_sigterm():
        assert (signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL) == is_set


@pytest.mark.parametrize(("error", "closes"), [(Interrupted, False), (StoppedTogether, True), (None, True)])
def test_a_process_leaves_its_group_in_order_only_with_the_others(error, closes):
    group = Mock()
    _close_group(group, error)
    assert group.close.called == closes
