"""What all tests share: shapes checked at every call, derandomised properties, one thread."""

import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")
# Tests are of a CPU, whose bits repeat, wherever they run.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

# As in a terminal, whatever runs the tests: output is buffered, and Ctrl-C is heard.
os.environ.pop("PYTHONUNBUFFERED", None)
signal.signal(signal.SIGINT, signal.default_int_handler)

# Every annotated shape of these rooms is checked at run time in the tests.
install_import_hook(["transduce.model", "transduce.search"], "beartype.beartype")

settings.register_profile(
    "tests", derandomize=True, max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")

pytest_plugins = ["micro_run"]
