"""What all tests share: shapes checked where models are tested, derandomised properties, one thread."""

import logging
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
# Tests are of a CPU, whose bits repeat, wherever they run.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
# What was meant for other work: a training's place among several, a cluster, tracebacks.
os.environ.pop("MKL_NUM_THREADS", None)
os.environ.pop("RANK", None)
os.environ.pop("WORLD_SIZE", None)
os.environ.pop("TORCHELASTIC_RESTART_COUNT", None)
os.environ.pop("RAY_ADDRESS", None)
os.environ.pop("TRANSDUCE_DEBUG", None)
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "127.0.0.1,localhost"  # servers of tests are on this machine

import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import config, install_import_hook

# As in a terminal, whatever runs the tests: output is buffered, and Ctrl-C is heard.
os.environ.pop("PYTHONUNBUFFERED", None)
signal.signal(signal.SIGINT, signal.default_int_handler)

# Every annotated shape of these packages can be checked at run time; what numba compiles cannot be wrapped.
SOURCE = Path(__file__).parents[1] / "src"
MODULES = [path for package in ("model", "search") for path in (SOURCE / "transduce" / package).rglob("*.py")]
COMPILED = [path for path in MODULES if path.parent.name == "compiled" and path.stem != "stepper"]
CHECKED = {*MODULES} - {*COMPILED, *(SOURCE / "transduce" / "search").glob("compiled_*.py")}
NAMES = [".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in CHECKED if path.stem != "__init__"]
install_import_hook(NAMES, "beartype.beartype")

# The tests whose calls are checked: elsewhere checks would double the time, and find what these find.
WITH_CHECKS = {Path(__file__).with_name(name) for name in ("model", "parsing", "search", "training")}


# What trains a model or starts a process: fixtures, and functions in the names of a module.
TRAINED = {"micro", "trained", "fluent", "parser", "treebank", "command"}
STARTING = {"subprocess", "multiprocessing", "transduce", "forked", "forked_together", "run_training", "serve"}


def pytest_collection_modifyitems(items):
    """Marks the tests that neither train nor start a process."""
    for item in items:
        starts = not (TRAINED.isdisjoint(item.fixturenames) and STARTING.isdisjoint(vars(item.module)))
        if not starts and not item.get_closest_marker("slow"):
            item.add_marker("quick")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Turns the checks of shapes on or off before the fixtures of a test compute anything."""
    is_checked = not WITH_CHECKS.isdisjoint(item.path.parents) and not item.get_closest_marker("no_shape_checks")
    config.update("jaxtyping_disable", not is_checked)


settings.register_profile(
    "tests", derandomize=True, max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tests")

pytest_plugins = ["log_records", "micro_run", "parsing_run"]
pytest.register_assert_rewrite("toys")

OF_SUBWORDS = {name: os.environ.get(name) for name in ("RAYON_NUM_THREADS", "TOKENIZERS_PARALLELISM")}


@pytest.fixture(autouse=True)
def taken_back():
    """What a run tells torch, the library of its subwords and the logger holds for the test that has it."""
    logger = logging.getLogger("transduce")
    handlers, level, propagates = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = handlers, level, propagates
    for name, value in OF_SUBWORDS.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    if torch := sys.modules.get("torch"):
        torch.set_deterministic_debug_mode("default")
        torch.set_flush_denormal(False)
        torch.utils.deterministic.fill_uninitialized_memory = True


@pytest.fixture(autouse=True, scope="session")
def compiled_searches():
    """Compiles the searches before the tests: the first translation on a machine would do it, with a message."""
    if all(find_spec(name) for name in ("torch", "numba")):
        from transduce.search.cpu_stepper import compile_searches

        for int8 in (False, True):
            compile_searches(int8=int8)
