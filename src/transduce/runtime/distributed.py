"""Communication between the processes of a run, which are started by `--processes` or by `torchrun`.

All processes compute, but only rank 0 reads and writes the files of the run. Decisions that depend on a clock, a signal
or a file are made together by all processes, or by rank 0 alone and then broadcast, so that all processes take the same
steps.
"""

import ipaddress
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from transduce.runtime.device import count_cores
from transduce.runtime.local_processes import STORE
from transduce.runtime.memory import is_out_of_memory
from transduce.runtime.signals import OtherProcessError

Result = TypeVar("Result")

PREPARE_TIMEOUT = timedelta(hours=12)  # the other processes may have to wait for hours while rank 0 prepares a corpus
REPLY_TIMEOUT = timedelta(minutes=30)  # timeout of all other operations, after which a process is considered dead

LOOPBACK = {"linux": "lo", "darwin": "lo0"}  # name of the loopback interface, which no other machine can reach


class ProcessGroup:
    """The group of `size` processes that carry out a run; this process has the rank `rank`."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size
        # Gloo is used for tensors on the CPU and for Python objects, even if NCCL is used for gradients.
        self._cpu_group: Any = distributed.new_group(backend="gloo", timeout=REPLY_TIMEOUT) if size > 1 else None
        self._slow_group: Any = distributed.new_group(backend="gloo", timeout=PREPARE_TIMEOUT) if size > 1 else None

    @property
    def is_rank_zero(self) -> bool:
        """Whether this process has rank 0, which reads and writes the files and prints the messages."""
        return self.rank == 0

    def on_rank_zero(self, action: Callable[[], Result], *, slow: bool = False) -> Result:
        """Calls `action` on rank 0, and returns its result on all processes.

        If `action` raises an OSError, it is raised on all processes. Any other exception is raised on rank 0 only,
        which reports it, and the other processes raise OtherProcessError. They wait for the result for up to
        `REPLY_TIMEOUT`, or `PREPARE_TIMEOUT` if `slow` is True.
        """
        if self.size == 1:
            return action()
        # The result, and the message if an exception was raised; the message of an OSError is in a tuple.
        outcome: list[Any] = [None, None]
        failure: BaseException | None = None
        if self.is_rank_zero:
            try:
                outcome[0] = action()
            except BaseException as error:  # also KeyboardInterrupt, because the other processes are waiting
                failure = error
                outcome[1] = (str(error),) if isinstance(error, OSError) else str(error)
        distributed.broadcast_object_list(outcome, 0, group=self._slow_group if slow else self._cpu_group)
        if failure is not None:
            raise failure
        if isinstance(outcome[1], tuple):
            raise OSError(*outcome[1])
        if outcome[1] is not None:
            raise OtherProcessError(outcome[1])
        result: Result = outcome[0]
        return result

    def on_every_rank(self, action: Callable[[], Result]) -> Result:
        """Calls `action` on every process, and returns the result of the call on this process.

        If any process runs out of memory, all processes raise RuntimeError, so that none of them waits for another in
        vain. `action` must not communicate with other processes.
        """
        if self.size == 1:
            return action()
        results, refusal = [], ""
        try:
            results.append(action())
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            refusal = str(error)
        refusals = [*filter(None, self.all_gather([refusal]))]
        if refusals:
            raise torch.OutOfMemoryError(refusals[0])
        return results[0]

    def all_reduce_max(self, *values: float) -> tuple[float, ...]:
        """Returns the maximum of each value over all processes."""
        if self.size == 1:
            return values
        maxima = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(maxima, distributed.ReduceOp.MAX, group=self._cpu_group)
        return tuple(maxima.tolist())

    def all_reduce(self, *tensors: Tensor) -> None:
        """Replaces each tensor, in place, with its sum over all processes."""
        if self.size > 1:
            for tensor in tensors:
                distributed.all_reduce(tensor, group=self._group_of(tensor))

    def broadcast(self, *tensors: Tensor) -> None:
        """Overwrites each tensor, in place, with its value on rank 0."""
        if self.size > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, 0, group=self._group_of(tensor))

    def all_gather_parts(self, parts: Iterable[Tensor]) -> None:
        """Broadcasts all parts, in place, each from a different process: the part with index n comes from rank n."""
        if self.size > 1:
            sent = [
                distributed.broadcast(part, rank, group=self._group_of(part), async_op=True)
                for rank, part in enumerate(parts)
                if part.numel()
            ]
            for part_sent in sent:
                part_sent.wait()

    def all_gather(self, items: Sequence[Result]) -> list[Result]:
        """Gathers the items of all processes, and returns them in their original order.

        The process of rank r must pass the items r, r + `size`, r + 2 · `size` and so on.
        """
        if self.size == 1:
            return list(items)
        gathered: list[Any] = [None] * self.size
        distributed.all_gather_object(gathered, list(items), group=self._cpu_group)
        return [gathered[index % self.size][index // self.size] for index in range(sum(map(len, gathered)))]

    def check_equal(self, tensors: Iterable[Tensor], fault: str) -> None:
        """Raises RuntimeError with the message `fault` if the tensors are not bit-identical on all processes.

        The tensors must be on the CPU.
        """
        if self.size == 1:
            return
        checksum = 0
        for tensor in tensors:
            checksum = zlib.crc32(tensor.contiguous().numpy().data, checksum)
        maximum, negative_minimum = self.all_reduce_max(checksum, -checksum)
        if maximum != -negative_minimum:
            raise RuntimeError(
                f"{fault}: start again from the last checkpoint, and check the memory of the machines for errors"
            )

    def close(self) -> None:
        """Leaves the process group."""
        if self.size > 1:
            distributed.destroy_process_group()

    def _group_of(self, tensor: Tensor) -> Any:
        """Returns the process group for communicating a tensor.

        This is the Gloo group for a tensor on the CPU, and None, which means the default group, for a tensor on a GPU.
        """
        return None if tensor.is_cuda else self._cpu_group


SINGLE_PROCESS = ProcessGroup()


def restart_count() -> int:
    """Returns the number of times that `torchrun` has restarted this command after a failure."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def share_of_cores() -> int | None:
    """Returns the number of threads that this process should use if several processes share this machine.

    Returns None if this is the only process on the machine, or if the number is already determined by the environment
    variable OMP_NUM_THREADS, which `torchrun` also sets.
    """
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if processes == 1 or "OMP_NUM_THREADS" in os.environ:
        return None
    return max(1, count_cores() // processes)


def _is_one_machine(size: int) -> bool:
    """Returns True if all `size` processes run on this machine.

    `--processes` and `torchrun` record the number of processes on this machine in LOCAL_WORLD_SIZE. `srun` and `mpirun`
    do not. For them, the result is True if MASTER_ADDR is a loopback address, which other machines could not reach.
    """
    if local_size := os.environ.get("LOCAL_WORLD_SIZE"):
        return local_size == str(size)
    address = os.environ.get("MASTER_ADDR", "")
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def join_process_group(device: torch.device) -> tuple[ProcessGroup, torch.device]:
    """Joins the processes that `--processes` or `torchrun` has started.

    Returns their group and the device for this process. If this process was started by neither of the two, the group
    consists of this process only.

    If all processes run on one machine, they connect through the loopback interface, unless GLOO_SOCKET_IFNAME or
    NCCL_SOCKET_IFNAME specifies another interface. Raises ValueError if this machine has fewer GPUs than processes.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return SINGLE_PROCESS, device
    if device.type == "cuda":
        number, count = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if number >= count:
            raise ValueError(
                f"this node has {count} GPUs: give --processes {count} or torchrun --nproc-per-node={count}, or less"
            )
        device = torch.device("cuda", number)
        torch.cuda.set_device(device)
    if _is_one_machine(size) and sys.platform in LOOPBACK:
        # By default, both libraries listen on the machine's network address, where anyone could send them a pickle.
        for library in ("GLOO", "NCCL"):
            os.environ.setdefault(f"{library}_SOCKET_IFNAME", LOOPBACK[sys.platform])
    if path := os.environ.get(STORE):
        rank = int(os.environ["RANK"])
        store = distributed.FileStore(path, size)  # type: ignore[attr-defined]  # torch does not list it
        store.set_timeout(REPLY_TIMEOUT)
    else:
        store, rank, size = next(rendezvous("env://"))
    # The prefix is needed because torchrun keeps its store when it restarts the processes, and the store then still
    # contains the addresses of the processes that have died.
    distributed.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        store=PrefixStore(f"attempt-{restart_count()}", store),
        rank=rank,
        world_size=size,
        timeout=REPLY_TIMEOUT,
    )
    return ProcessGroup(rank, size), device
