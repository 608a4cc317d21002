"""The processes of a run: a single process, or several that `--processes` or `torchrun` started.

All processes compute, but only rank 0 reads and writes the files. Rank 0 also makes every decision that depends on a
clock, a signal or a file, and broadcasts it, so that all processes take the same steps.
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

PREPARE_TIMEOUT = timedelta(hours=12)  # rank 0 may prepare a corpus for hours while the other processes wait
REPLY_TIMEOUT = timedelta(minutes=30)  # for everything else; a process that has not answered by then has died

LOOPBACK = {"linux": "lo", "darwin": "lo0"}  # the network interface that no other machine can reach


class ProcessGroup:
    """The processes of a run, as process `rank` of `size` sees them."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size
        # Tensors on the CPU and Python objects use gloo, even if NCCL carries the gradients.
        self._cpu_group: Any = distributed.new_group(backend="gloo", timeout=REPLY_TIMEOUT) if size > 1 else None
        self._slow_group: Any = distributed.new_group(backend="gloo", timeout=PREPARE_TIMEOUT) if size > 1 else None

    @property
    def is_rank_zero(self) -> bool:
        """Whether this process reads and writes the files and prints the messages."""
        return self.rank == 0

    def on_rank_zero(self, action: Callable[[], Result], *, slow: bool = False) -> Result:
        """Calls `action` on rank 0 and returns its result on all processes.

        An OSError of `action` is raised on all processes. Any other error is raised on rank 0, which reports it; the
        other processes raise OtherProcessError. They wait REPLY_TIMEOUT, or PREPARE_TIMEOUT if `slow`.
        """
        if self.size == 1:
            return action()
        outcome: list[Any] = [None, None]  # the result; the message of an error, in a tuple if it is an OSError
        failure: BaseException | None = None
        if self.is_rank_zero:
            try:
                outcome[0] = action()
            except BaseException as error:  # KeyboardInterrupt too, because the other processes are waiting
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
        """Calls `action` on each process and returns its own result; `action` must not wait for other processes.

        If any process runs out of memory, all of them raise RuntimeError, so that none waits for another.
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
        """Replaces each tensor by its sum over all processes, in place."""
        if self.size > 1:
            for tensor in tensors:
                distributed.all_reduce(tensor, group=self._group_of(tensor))

    def broadcast(self, *tensors: Tensor) -> None:
        """Copies each tensor of rank 0 to all processes, in place."""
        if self.size > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, 0, group=self._group_of(tensor))

    def all_gather_parts(self, parts: Iterable[Tensor]) -> None:
        """Copies each part to all processes, in place; the n-th part comes from the process with rank n."""
        if self.size > 1:
            sent = [
                distributed.broadcast(part, rank, group=self._group_of(part), async_op=True)
                for rank, part in enumerate(parts)
                if part.numel()
            ]
            for part_sent in sent:
                part_sent.wait()

    def all_gather(self, items: Sequence[Result]) -> list[Result]:
        """Returns the items of all processes in order; rank r must hold items r, r + size, r + 2 · size, …."""
        if self.size == 1:
            return list(items)
        gathered: list[Any] = [None] * self.size
        distributed.all_gather_object(gathered, list(items), group=self._cpu_group)
        return [gathered[index % self.size][index // self.size] for index in range(sum(map(len, gathered)))]

    def check_equal(self, tensors: Iterable[Tensor], fault: str) -> None:
        """Raises RuntimeError with `fault` if the processes' tensors, which are on the CPU, are not bit-identical."""
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
        """Gloo's group for a tensor on the CPU; None, which means the default group, for a tensor on a GPU."""
        return None if tensor.is_cuda else self._cpu_group


SINGLE_PROCESS = ProcessGroup()


def restart_count() -> int:
    """How often `torchrun` has restarted this command after a failure."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def share_of_cores() -> int | None:
    """Returns the number of threads for each process, at least one, if several processes share this machine.

    Returns None if this is the only process, or if OMP_NUM_THREADS, which `torchrun` also sets, gives the number.
    """
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if processes == 1 or "OMP_NUM_THREADS" in os.environ:
        return None
    return max(1, count_cores() // processes)


def _is_one_machine(size: int) -> bool:
    """Whether all processes run on this machine: `--processes` and `torchrun` record how many do.

    `srun` and `mpirun` do not record it, but only processes on this machine can reach a loopback address.
    """
    if local_size := os.environ.get("LOCAL_WORLD_SIZE"):
        return local_size == str(size)
    address = os.environ.get("MASTER_ADDR", "")
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def join_process_group(device: torch.device) -> tuple[ProcessGroup, torch.device]:
    """Joins the processes that `--processes` or `torchrun` started; returns their group and the device of this process.

    Otherwise the group has one process. Processes on one machine connect through the loopback interface, unless
    GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME names another interface. Raises ValueError if a node has fewer GPUs than
    processes.
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
        # By default both libraries listen at the machine's address, where anyone could send them a pickle.
        for library in ("GLOO", "NCCL"):
            os.environ.setdefault(f"{library}_SOCKET_IFNAME", LOOPBACK[sys.platform])
    if path := os.environ.get(STORE):
        rank = int(os.environ["RANK"])
        store = distributed.FileStore(path, size)  # type: ignore[attr-defined]  # torch does not list it
        store.set_timeout(REPLY_TIMEOUT)
    else:
        store, rank, size = next(rendezvous("env://"))
    # The prefix is needed because torchrun keeps its store across restarts, with the addresses of processes that have
    # died.
    distributed.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        store=PrefixStore(f"attempt-{restart_count()}", store),
        rank=rank,
        world_size=size,
        timeout=REPLY_TIMEOUT,
    )
    return ProcessGroup(rank, size), device
