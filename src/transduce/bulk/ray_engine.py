"""Bulk translation on a Ray cluster. Each actor loads the models and is replaced if it dies."""

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

THREADS = 4  # default for an actor without a GPU; fewer if a machine has fewer cores
QUEUED_SHARDS = 2  # per actor: one that it is translating, and one that waits so that the actor is never idle
ATTEMPTS = 3  # per shard, each by a different actor

STANDARD_ERROR = 2
LOOPBACK_ALONE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # if it is 0, Ray listens only on loopback


class ActorPlan(NamedTuple):
    """The number of actors, the resources that each actor needs, and the job with the actors' device and threads."""

    actors: int
    resources: Mapping[str, int]
    job: TranslationJob

    def __str__(self) -> str:
        resources = "a GPU each" if "num_gpus" in self.resources else f"threads each: {self.job.threads}"
        return f"actors: {self.actors}, {resources}"


def translate_on_ray(
    job: TranslationJob, shards: Sequence[Shard], *, actors: int | None
) -> Generator[tuple[Shard, ShardResult]]:
    """Translates shards with Ray Data, and yields each one with its result when it is finished.

    Ray runs on the cluster that RAY_ADDRESS names or, by default, on this machine. Every actor reads the models and the
    texts from disk, so a cluster of several machines needs a shared folder.

    Raises RuntimeError if a shard cannot be translated. Raises ValueError if Ray is not installed, has too few
    resources or is already connected. Also raises ValueError if Ray was imported earlier and would have to start its
    own cluster, because this cluster would accept connections from other machines.
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
    """Translates shards in a process that Ray starts."""

    def __init__(self, job: TranslationJob, shards: Sequence[Shard], attempts: Any) -> None:
        self.translator, self.shards, self.attempts = ShardTranslator(job), shards, attempts

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Translates the shard with the given number and returns its record as JSON.

        An error is returned in the record instead of being raised, because Ray's own messages contain less information.
        """
        import ray

        number = int(batch["number"][0])
        attempt = ray.get(self.attempts.begin.remote(number))
        return {"number": [number], "record": [json.dumps({"attempt": attempt, **self._record(number, attempt)})]}

    def _record(self, number: int, attempt: int) -> dict[str, Any]:
        """Translates a shard and returns its result.

        If that fails, returns the error message under the key `refused` (for ValueError and OSError) or `failed` (for
        other errors).
        """
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
    """Counts the attempts at each shard. A shard needs more than one attempt if an actor dies."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def begin(self, number: int) -> int:
        """Counts an attempt at a shard, and returns the number of attempts so far."""
        self.counts[number] += 1
        return self.counts[number]


def _name_of(shard: Shard) -> str:
    return f"{shard.path}, lines {shard.lines_before + 1}–{shard.lines_before + shard.lines}"


def _result_of(record: Mapping[str, Any]) -> ShardResult:
    """Returns the result in an actor's record, or raises the error that the record contains."""
    if "refused" in record:
        raise ValueError(record["refused"])
    if "failed" in record:
        raise RuntimeError(record["failed"])
    return ShardResult(record["text"], [(number, fault) for number, fault in record["faults"]])


def _plan_actors(
    nodes: Sequence[Mapping[str, Any]], job: TranslationJob, actors: int, *, is_required: bool
) -> ActorPlan:
    """Plans one actor for each GPU. If no GPU is used, plans one actor for each group of threads.

    At most `actors` actors are planned. Raises ValueError if the cluster does not have room for a single actor, or if
    `is_required` is true and it does not have room for all of them.
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
    """Connects to Ray, and shuts it down when the context exits.

    Messages from Ray itself are shown only if the environment variable TRANSDUCE_DEBUG is 1.
    """
    is_verbose = os.environ.get("TRANSDUCE_DEBUG") == "1"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not is_verbose:
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    address = os.environ.get("RAY_ADDRESS", "local")
    if address == "local":
        # Ray reads this variable when it is imported. If it is set, Ray's own cluster listens only on loopback on every
        # system, and not only on macOS.
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
    if ray.is_initialized():  # the shutdown at the end would also shut down the program's own cluster
        raise ValueError("--actors: this program is connected to Ray already: call ray.shutdown() before")
    _log.info("Ray starts on this machine" if address == "local" else f"Ray at {address}")
    sigterm_handler = signal.getsignal(signal.SIGTERM)
    level = logging.WARNING if is_verbose else logging.CRITICAL
    # Ray reports the death of an actor on standard output, which is reserved for results.
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
    """Discards everything that is written to a file descriptor, including output from Ray's native code."""
    original = os.dup(descriptor)
    with Path(os.devnull).open("w") as null:
        os.dup2(null.fileno(), descriptor)
    try:
        yield
    finally:
        os.dup2(original, descriptor)
        os.close(original)
