"""Shards translated by the actors of a Ray cluster: one model a device, an actor that dies replaced."""

import contextlib
import io
import json
import logging
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transduce.bulk.job import Job, ShardResult, Worker
from transduce.bulk.shards import Shard

__all__ = ["on_ray"]

THREADS = 4  # of an actor without a GPU, where so many are there and no other number is asked for
AT_ONCE = 2  # shards an actor has: one that it translates and one that waits, so that it never does
ATTEMPTS = 3  # actors that may die over a shard

STANDARD_ERROR = 2


class Crew(NamedTuple):
    """So many actors, what each of them occupies, and the job as it suits them."""

    actors: int
    needs: Mapping[str, int]
    job: Job

    def __str__(self) -> str:
        each = "a GPU each" if "num_gpus" in self.needs else f"threads each: {self.job.threads}"
        return f"actors: {self.actors}, {each}"


def on_ray(
    job: Job, shards: Sequence[Shard], *, actors: int | None, say: Callable[[str], None]
) -> Generator[tuple[Shard, ShardResult]]:
    """Translates shards by Ray Data, on the cluster that RAY_ADDRESS names or on one of this machine's own.

    The model and the texts are read where an actor is: on several machines they are in a folder that all of them see.
    `ValueError` where Ray is missing, or what is asked for has no room; `RuntimeError` for a shard that cannot be done.
    """
    with _connected(say) as ray:
        crew = _crew(ray.nodes(), job, min(actors or len(shards), len(shards)), asked=actors is not None)
        say(str(crew))
        attempts = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(_Attempts).remote()
        numbers = [{"number": number} for number in range(len(shards))]
        answers = ray.data.from_items(numbers, override_num_blocks=len(numbers)).map_batches(
            _Actor,
            fn_constructor_args=(crew.job, list(shards), attempts),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=crew.actors, max_tasks_in_flight_per_actor=AT_ONCE),
            **crew.needs,
        )
        for answer in answers.iter_batches(batch_size=1, prefetch_batches=0):
            shard, found = shards[int(answer["number"][0])], json.loads(str(answer["found"][0]))
            outcome = _outcome(found)
            if found["attempt"] > 1:
                say(f"{_named(shard)}: done at attempt {found['attempt']}; before, the actor died")
            yield shard, outcome


class _Actor:
    """What Ray keeps in a process of its own: a worker."""

    def __init__(self, job: Job, shards: Sequence[Shard], attempts: Any) -> None:
        self.worker, self.shards, self.attempts = Worker(job), shards, attempts

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """One shard's number to what came of it, as JSON; errors are told and not raised, for Ray's would say less."""
        import ray

        number = int(batch["number"][0])
        attempt = ray.get(self.attempts.begin.remote(number))
        return {"number": [number], "found": [json.dumps({"attempt": attempt, **self._found(number, attempt)})]}

    def _found(self, number: int, attempt: int) -> dict[str, Any]:
        if attempt > ATTEMPTS:
            where = _named(self.shards[number])
            return {"failed": f"{where}: {ATTEMPTS} actors died over it, most likely for want of memory; "
                    "try fewer --actors, a smaller --batch-tokens or fewer --shard-lines"}  # fmt: skip
        try:
            return dict(self.worker.outcome(self.shards[number])._asdict())
        except (ValueError, OSError) as error:
            return {"refused": str(error)}
        except Exception as error:
            return {"failed": f"{_named(self.shards[number])}: {type(error).__name__}: {error}"}


class _Attempts:
    """How often each shard was begun: more than once where its actor has died over it."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def begin(self, number: int) -> int:
        """Counts one more."""
        self.counts[number] += 1
        return self.counts[number]


def _named(shard: Shard) -> str:
    """A shard, as people know it."""
    source = shard.source
    return f"{source.path}, lines {source.before + 1}–{source.before + source.lines}"


def _outcome(found: Mapping[str, Any]) -> ShardResult:
    """What an actor tells; its errors as they would be here."""
    if "refused" in found:
        raise ValueError(found["refused"])
    if "failed" in found:
        raise RuntimeError(found["failed"])
    return ShardResult(found["text"], [(number, why) for number, why in found["faults"]])


def _crew(nodes: Sequence[Mapping[str, Any]], job: Job, wanted: int, *, asked: bool) -> Crew:
    """An actor a GPU where there are GPUs, else one for a few threads; a `ValueError` where there is no room for it."""
    machines = [node["Resources"] for node in nodes if node["Alive"]]
    gpus = sum(int(machine.get("GPU", 0)) for machine in machines)
    if job.device == "cuda" or (job.device == "auto" and gpus):
        threads, needs, room = job.threads, {"num_gpus": 1}, gpus
        lacking = "--device cuda: Ray sees no GPU; use --device cpu"
    elif job.device in ("auto", "cpu"):
        cores = [int(machine["CPU"]) for machine in machines if machine.get("CPU", 0) >= 1]
        threads = job.threads or min([THREADS, *cores])
        needs, room = {"num_cpus": threads}, sum(count // threads for count in cores)
        lacking = f"--threads {threads}: no machine of Ray's has more than {max(cores, default=0)}"
    else:
        raise ValueError(f"--device {job.device}: with --engine ray it is auto, cpu or cuda")
    if not room:
        raise ValueError(lacking)
    if asked and wanted > room:
        raise ValueError(f"--actors {wanted}: Ray has room for {room}; take as many, or fewer --threads each")
    kind = "cuda" if "num_gpus" in needs else "cpu"
    return Crew(min(wanted, room), needs, job._replace(device=kind, threads=threads))


@contextlib.contextmanager
def _connected(say: Callable[[str], None]) -> Iterator[Any]:
    """Ray, while it is needed; silent unless TRANSDUCE_DEBUG is 1, for what goes wrong is told by us."""
    loud = os.environ.get("TRANSDUCE_DEBUG") == "1"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not loud:
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        import ray
        import ray.data
    except ImportError:
        raise ValueError("--engine ray needs Ray: `pip install 'ray[data]'`; or use --engine local") from None
    address = os.environ.get("RAY_ADDRESS", "local")
    say("Ray starts on this machine" if address == "local" else f"Ray at {address}")
    terminated = signal.getsignal(signal.SIGTERM)
    level = logging.WARNING if loud else logging.CRITICAL
    # What Ray itself has to say of a dead actor it prints, on standard output, where only results belong.
    with contextlib.redirect_stdout(sys.stderr if loud else io.StringIO()):
        try:
            with contextlib.nullcontext() if loud else _mute(STANDARD_ERROR):
                ray.init(address, include_dashboard=False, log_to_driver=loud, logging_level=level)
            signal.signal(signal.SIGTERM, terminated)  # Ray has put its own in its place
            context = ray.data.DataContext.get_current()
            context.enable_progress_bars = context.print_on_execution_start = False
            logging.getLogger("ray.data").setLevel(level)
            yield ray
        finally:
            ray.shutdown()


@contextlib.contextmanager
def _mute(descriptor: int) -> Iterator[None]:
    """Lets nothing through to a file, whoever writes: part of Ray is no Python, and what runs there speaks as well."""
    kept = os.dup(descriptor)
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), descriptor)
    try:
        yield
    finally:
        os.dup2(kept, descriptor)
        os.close(kept)
