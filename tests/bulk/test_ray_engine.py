"""Actors of Ray: the same lines in the same order, also where an actor is killed."""

import contextlib
import importlib.util
import io
import os
import random
import signal
import sys
from pathlib import Path
from types import ModuleType

import pytest

from listening import process_tree, reachable_addresses
from micro_run import WORDS, forked
from transduce.bulk import ray_engine
from transduce.bulk.ray_engine import translate_on_ray
from transduce.bulk.shards import ShardResult, cut_texts
from transduce.bulk.translate_shards import ShardTranslator, TranslationJob, translate_texts
from transduce.search.beam import Decoding
from transduce.translation.search_method import SearchMethod

METHOD = SearchMethod(Decoding(beam=2, extra_length=4))


@pytest.fixture(scope="module")
def ray():
    """Skips tests where Ray is not installed; the engine imports it, after it has set what Ray then reads."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: `pip install '.[ray]'`")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    generator = random.Random(1)
    lines = [" ".join(generator.choice(WORDS) for _ in range(generator.randint(1, 9))) for _ in range(400)]
    path = tmp_path_factory.mktemp("text") / "text.en"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def job(fluent):
    return TranslationJob.of([fluent], METHOD, batch_tokens=1, device="cpu", threads=1)


def actors():
    """Returns the child processes in which Ray translates."""
    names = {process: Path(f"/proc/{process}/cmdline").read_bytes() for process in process_tree(os.getpid())}
    return [process for process, name in names.items() if name.startswith(b"ray::MapWorker")]


@pytest.mark.filterwarnings("ignore")  # whatever Ray's own imports warn of
def test_killed_actors_lose_no_line_and_order_is_the_texts(ray, job, fluent, text, tmp_path, log_lines):
    killed, out = [], tmp_path / "out"

    def engine(job, shards):
        for result in translate_on_ray(job, shards, actors=2):
            if not killed:
                assert reachable_addresses(os.getpid()) == []
                killed.extend(actors())
                for process in killed:
                    os.kill(process, signal.SIGKILL)
            yield result

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        translate_texts(job, cut_texts(text, out, 50), out, engine)
    assert len(killed) == 2
    assert any("done at attempt 2; before, the actor died" in line for line in log_lines), log_lines
    assert "actors: 2, threads each: 1" in log_lines
    assert out.read_text() == forked("translate", fluent, text, "--beam=2").out
    assert printed.getvalue() == ""
    assert not sys.modules["ray"].is_initialized()


@pytest.mark.filterwarnings("ignore")
def test_an_error_of_an_actor_is_raised_here(ray, job, text, tmp_path):
    """The text changes after it was cut into shards."""
    changing = tmp_path / "changing"
    changing.write_bytes(text.read_bytes())
    texts = cut_texts(changing, tmp_path / "out", 100)
    changing.write_bytes(text.read_bytes()[:-9] + b"changed.\n")
    with pytest.raises(ValueError, match="changing was changed while it was translated"):
        list(translate_on_ray(job, texts[0].shards[-1:], actors=None))
    assert not sys.modules["ray"].is_initialized()


def test_without_ray_it_says_what_to_install(job, text, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    [whole] = cut_texts(text, tmp_path / "out", 100)
    with pytest.raises(ValueError, match=r"`pip install '\.\[ray\]'`"):
        next(translate_on_ray(job, whole.shards, actors=None))


def test_a_cluster_that_would_listen_to_other_machines_is_refused(job, text, tmp_path, monkeypatch):
    """Ray reads the variable when it is imported: set afterwards, it has no effect."""
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", raising=False)
    [whole] = cut_texts(text, tmp_path / "out", 100)
    with pytest.raises(ValueError, match="RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 before the import, or RAY_ADDRESS"):
        next(translate_on_ray(job, whole.shards, actors=None))
    assert "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER" not in os.environ, "the next call would begin"


def test_the_cluster_of_the_program_is_left_alone(job, text, tmp_path, monkeypatch):
    """Ray refused to connect twice, and the cluster of the program was shut down."""
    ray, data, shutdowns = ModuleType("ray"), ModuleType("ray.data"), []
    ray.data, ray.is_initialized, ray.shutdown = data, lambda: True, lambda: shutdowns.append(1)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.data", data)
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    [whole] = cut_texts(text, tmp_path / "out", 100)
    with pytest.raises(ValueError, match=r"connected to Ray already: call ray.shutdown\(\) before"):
        next(translate_on_ray(job, whole.shards, actors=None))
    assert shutdowns == []


def nodes(*machines):
    return [{"Alive": alive, "Resources": {"CPU": cores, "GPU": gpus}} for alive, cores, gpus in machines]


@pytest.mark.parametrize(
    ("machines", "device", "threads", "most_actors", "description"),
    [
        ([(True, 2, 0)], "auto", None, 99, "actors: 1, threads each: 2"),
        ([(True, 16, 0)], "auto", None, 99, "actors: 4, threads each: 4"),
        ([(True, 16, 0)], "auto", None, 3, "actors: 3, threads each: 4"),
        ([(True, 16, 0), (True, 3, 0), (False, 64, 0), (True, 0, 0)], "auto", None, 99, "actors: 6, threads each: 3"),
        ([(True, 7, 0), (True, 3, 0)], "cpu", 3, 99, "actors: 3, threads each: 3"),
        ([(True, 16, 8), (True, 16, 1)], "auto", None, 99, "actors: 9, a GPU each"),
        ([(True, 16, 8)], "cuda", None, 2, "actors: 2, a GPU each"),
        ([(True, 16, 8)], "cpu", None, 99, "actors: 4, threads each: 4"),
    ],
)
def test_a_model_a_device(job, machines, device, threads, most_actors, description):
    plan = ray_engine._plan_actors(
        nodes(*machines), job._replace(device=device, threads=threads), most_actors, is_required=False
    )
    assert str(plan) == description
    assert plan.job.device == ("cuda" if "num_gpus" in plan.resources else "cpu")
    assert sum(plan.resources.values()) == (1 if "num_gpus" in plan.resources else plan.job.threads)


@pytest.mark.parametrize(
    ("device", "threads", "actors", "message"),
    [
        ("cuda", None, 1, "Ray sees no GPU"),
        ("cuda:1", None, 1, "with --actors, choose auto, cpu or cuda"),
        ("auto", 9, 1, "--threads 9: no machine of the Ray cluster has more than 8 cores"),
        ("auto", 2, 5, "--actors 5: the Ray cluster has room for 4"),
    ],
)
def test_too_few_resources_are_refused(job, device, threads, actors, message):
    with pytest.raises(ValueError, match=message):
        ray_engine._plan_actors(
            nodes((True, 8, 0)), job._replace(device=device, threads=threads), actors, is_required=True
        )


def test_a_shard_that_kills_its_actors_is_given_up(job, text, tmp_path):
    [whole] = cut_texts(text, tmp_path / "out", 150)
    actor = ray_engine._ShardActor(job, whole.shards, None)
    actor.translator.translate = lambda shard: ShardResult("x\n", [(3, "why")])
    assert ray_engine._result_of(actor._record(1, ray_engine.ATTEMPTS)) == ShardResult("x\n", [(3, "why")])
    with pytest.raises(RuntimeError, match=r"text\.en, lines 151–300: 3 actors died translating it"):
        ray_engine._result_of(actor._record(1, ray_engine.ATTEMPTS + 1))
    actor.translator.translate = lambda shard: 1 / 0
    with pytest.raises(RuntimeError, match=r"lines 301–400: ZeroDivisionError: division by zero"):
        ray_engine._result_of(actor._record(2, 1))
    assert isinstance(ray_engine._ShardActor(job, [], None).translator, ShardTranslator)
    counted = ray_engine._AttemptCounter()
    assert [counted.begin(number) for number in (7, 7, 2, 7)] == [1, 2, 1, 3]
