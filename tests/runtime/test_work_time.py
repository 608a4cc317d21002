"""Work time: what counts for the minutes of a training."""

import signal
import subprocess
import sys
import threading
import time

from transduce.runtime import work_time
from transduce.runtime.work_time import WorkTime

SCRIPT = """
import time
from transduce.runtime import work_time
work_time.TICK_SECONDS, work_time.LONGEST_GAP_SECONDS = 0.02, 0.5
work = work_time.WorkTime()
began = time.monotonic()
print("begun", flush=True)
input()
print(work.seconds(), time.monotonic() - began)
"""


def test_a_stop_does_not_count():
    command = [sys.executable, "-c", SCRIPT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        time.sleep(2)
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate("\n", timeout=60)
    worked, passed = map(float, out.split())
    assert passed - worked > 1.5


def test_a_long_computation_counts(monkeypatch):
    """One that reads no time itself, such as a validation, lasts longer than the longest gap between two ticks."""
    monkeypatch.setattr(work_time, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(work_time, "LONGEST_GAP_SECONDS", 0.5)
    begun, work = time.monotonic(), WorkTime()
    time.sleep(0.8)
    assert 0.5 < work.seconds() <= time.monotonic() - begun
    threads = threading.active_count()
    work.close()
    deadline = time.monotonic() + 10
    while threading.active_count() == threads:
        assert time.monotonic() < deadline
        time.sleep(0.01)
