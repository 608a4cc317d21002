"""Work time: what counts for the minutes of a training."""

import signal
import subprocess
import sys
import threading
import time

from transduce.runtime import progress as work_time
from transduce.runtime.progress import WorkTime

SCRIPT = """
import time
from transduce.runtime import progress as work_time
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
    for _ in range(5):  # a machine that stands still for half a second is a gap
        begun, work = time.monotonic(), WorkTime()
        time.sleep(0.8)
        seconds = work.seconds()
        assert seconds <= time.monotonic() - begun
        if seconds > 0.5:
            break
        work.close()
    assert seconds > 0.5
    threads = threading.active_count()
    work.close()
    deadline = time.monotonic() + 10
    while threading.active_count() == threads:
        assert time.monotonic() < deadline
        time.sleep(0.01)
