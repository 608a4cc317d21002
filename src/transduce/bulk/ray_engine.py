"""Bulk translation by the actors of a Ray cluster: one model per device; an actor that dies is replaced."""

import contextlib
import io
import json
import logging
import os
import signal
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transduce.bulk.shards import Shard, ShardResult
from transduce.bulk.translate_shards import ShardTranslator, TranslationJob
from transduce.runtime.extras import install_command

_log = logging.getLogger("transduce")

THREADS = 4  # default for an actor without a GPU, if every machine has that many cores
QUEUED_SHARDS = 2  # per actor: one that it translates, and one so that it never waits
ATTEMPTS = 3  # per shard, each by a different actor

STANDARD_ERROR = 2
LOOPBACK_ALONE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # 0 means loopback only


class ActorPlan(NamedTuple):
    """The number of actors, the resources of each, and the job with the actors' device and threads."""

    actors: int
    resources: Mapping[str, int]
    job: TranslationJob

    def __str__(self) -> str:
        resources = "a GPU each" if "num_gpus" in self.resources else f"threads each: {self.job.threads}"
        return f"actors: {self.actors}, {resources}"


def translate_on_ray(
    job: TranslationJob, shards: Sequence[Shard], *, actors: int | None
) -> Generator[tuple[Shard, ShardResult]]:
    """Translates shards with Ray Data, on the cluster that RAY_ADDRESS names or on this machine.

    Each actor reads the models and the texts, so several machines need a shared folder. Raises RuntimeError if a shard
    cannot be translated. Raises ValueError if Ray is missing, has too few resources or is already connected, or if it
    was imported earlier, because its own cluster would then listen to other machines.
    """
    with _connected() as ray:
        plan = _plan_actors(ray.nodes(), job, min(actors or len(shards), len(shards)), is_required=actors is not None)
        _log.info(str(plan))
        attempts = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(_AttemptCounter).remote()
        numbers = [{"number": number} for number in range(len(shards))]
        answers = ray.data.from_items(numbers, override_num_blocks=len(numbers)).map_batches(
            _ShardActor,
            fn_constructor_args=(plan.job, list(shards), attempts),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=plan.actors, max_tasks_in_flight_per_actor=QUEUED_SHARDS),
            **plan.resources,
        )
        for answer in answers.iter_batches(batch_size=1, prefetch_batches=0):
            shard, record = shards[int(answer["number"][0])], json.loads(str(answer["record"][0]))
            result = _result_of(record)
            if record["attempt"] > 1:
                _log.info(f"{_name_of(shard)}: done at attempt {record['attempt']}; before, the actor died")
            yield shard, result


class _ShardActor:
    """A translator of shards that Ray runs in its own process."""

    def __init__(self, job: TranslationJob, shards: Sequence[Shard], attempts: Any) -> None:
        self.translator, self.shards, self.attempts = ShardTranslator(job), shards, attempts

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Maps the number of a shard to its record, as JSON.

        The record also contains errors, because Ray's own messages say less.
        """
        import ray

        number = int(batch["number"][0])
        attempt = ray.get(self.attempts.begin.remote(number))
        return {"number": [number], "record": [json.dumps({"attempt": attempt, **self._record(number, attempt)})]}

    def _record(self, number: int, attempt: int) -> dict[str, Any]:
        """Translates a shard; returns its result, or its error as `refused` (ValueError, OSError) or `failed`."""
        if attempt > ATTEMPTS:
            message = f"{ATTEMPTS} actors died translating it, most likely because memory ran out; try fewer --actors, "
            return {"failed": f"{_name_of(self.shards[number])}: {message}or a smaller --beam"}
        try:
            return dict(self.translator.translate(self.shards[number])._asdict())
        except (ValueError, OSError) as error:
            return {"refused": str(error)}
        except Exception as error:
            return {"failed": f"{_name_of(self.shards[number])}: {type(error).__name__}: {error}"}


class _AttemptCounter:
    """Counts the attempts at each shard: there is more than one if an actor died."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def begin(self, number: int) -> int:
        """Counts an attempt and returns the number of attempts."""
        self.counts[number] += 1
        return self.counts[number]


def _name_of(shard: Shard) -> str:
    return f"{shard.path}, lines {shard.lines_before + 1}–{shard.lines_before + shard.lines}"


def _result_of(record: Mapping[str, Any]) -> ShardResult:
    """Returns the result in an actor's record, or raises its error."""
    if "refused" in record:
        raise ValueError(record["refused"])
    if "failed" in record:
        raise RuntimeError(record["failed"])
    return ShardResult(record["text"], [(number, fault) for number, fault in record["faults"]])


def _plan_actors(
    nodes: Sequence[Mapping[str, Any]], job: TranslationJob, actors: int, *, is_required: bool
) -> ActorPlan:
    """Plans one actor for each GPU or, without GPUs, one for each group of threads.

    Raises ValueError if the cluster has no room for a single actor, or for `actors` if that number `is_required`.
    """
    machines = [node["Resources"] for node in nodes if node["Alive"]]
    gpus = sum(int(machine.get("GPU", 0)) for machine in machines)
    if job.device == "cuda" or (job.device == "auto" and gpus):
        threads, resources, room = job.threads, {"num_gpus": 1}, gpus
        message = "--device cuda: Ray sees no GPU; use --device cpu"
    elif job.device in ("auto", "cpu"):
        cores = [int(machine["CPU"]) for machine in machines if machine.get("CPU", 0) >= 1]
        threads = job.threads or min([THREADS, *cores])
        resources, room = {"num_cpus": threads}, sum(count // threads for count in cores)
        message = f"--threads {threads}: no machine of the Ray cluster has more than {max(cores, default=0)} cores"
    else:
        raise ValueError(f"--device {job.device}: with --actors, choose auto, cpu or cuda")
    if not room:
        raise ValueError(message)
    if is_required and actors > room:
        raise ValueError(f"--actors {actors}: the Ray cluster has room for {room}; use fewer actors or fewer --threads")
    device = "cuda" if "num_gpus" in resources else "cpu"
    return ActorPlan(min(actors, room), resources, job._replace(device=device, threads=threads))


@contextlib.contextmanager
def _connected() -> Iterator[Any]:
    """Connects to Ray and shuts it down at the end; shows Ray's own messages only if TRANSDUCE_DEBUG is 1."""
    is_verbose = os.environ.get("TRANSDUCE_DEBUG") == "1"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not is_verbose:
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    address = os.environ.get("RAY_ADDRESS", "local")
    if address == "local":
        # Ray reads the variable at import. With it, Ray's own cluster listens only on loopback on every system, as it
        # does on macOS.
        if sys.modules.get("ray") and LOOPBACK_ALONE not in os.environ:
            raise ValueError(
                "--actors: this program imported Ray earlier, whose own cluster would listen to other machines: "
                f"set the environment variable {LOOPBACK_ALONE}=0 before the import, or RAY_ADDRESS to a cluster"
            )
        os.environ.setdefault(LOOPBACK_ALONE, "0")
    try:
        import ray
        import ray.data
    except ImportError:
        raise ValueError(f"--actors needs Ray: {install_command('ray')}; or leave it out") from None
    if ray.is_initialized():  # the shutdown at the end would end the program's own cluster too
        raise ValueError("--actors: this program is connected to Ray already: call ray.shutdown() before")
    _log.info("Ray starts on this machine" if address == "local" else f"Ray at {address}")
    sigterm_handler = signal.getsignal(signal.SIGTERM)
    level = logging.WARNING if is_verbose else logging.CRITICAL
    # Ray prints the death of an actor on standard output, where only results belong.
    with contextlib.redirect_stdout(sys.stderr if is_verbose else io.StringIO()):
        try:
            with contextlib.nullcontext() if is_verbose else _mute(STANDARD_ERROR):
                ray.init(address, include_dashboard=False, log_to_driver=is_verbose, logging_level=level)
            signal.signal(signal.SIGTERM, sigterm_handler)  # `ray.init` replaces the handler
            context = ray.data.DataContext.get_current()
            context.enable_progress_bars = context.print_on_execution_start = False
            logging.getLogger("ray.data").setLevel(level)
            yield ray
        finally:
            ray.shutdown()


@contextlib.contextmanager
def _mute(descriptor: int) -> Iterator[None]:
    """Discards everything written to a file descriptor, even by Ray's native code."""
    original = os.dup(descriptor)
    with Path(os.devnull).open("w") as null:
        os.dup2(null.fileno(), descriptor)
    try:
        yield
    finally:
        os.dup2(original, descriptor)
        os.close(original)
