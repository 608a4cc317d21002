"""The processes of one training: alone, or as many as `torchrun` has started. All compute; the first keeps the files.

What depends on a clock, a signal or a file is decided by one and known to all, so that all do the same in each step.
"""

import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from transduce.runtime.signals import OtherProcessError

__all__ = ["SINGLE_PROCESS", "ProcessGroup", "join_process_group", "restart_count"]

Result = TypeVar("Result")

PREPARE_TIMEOUT = timedelta(hours=12)  # preparing a corpus takes the first process hours, while the others wait
REPLY_TIMEOUT = timedelta(minutes=30)  # all else takes all of them as long; who does not answer by then is dead


class ProcessGroup:
    """One of `size` processes, `rank` of them before it."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size
        # What is not on a GPU goes by gloo, whatever carries the gradients.
        self._cpu_group: Any = distributed.new_group(backend="gloo", timeout=REPLY_TIMEOUT) if size > 1 else None
        self._slow_group: Any = distributed.new_group(backend="gloo", timeout=PREPARE_TIMEOUT) if size > 1 else None

    @property
    def is_rank_zero(self) -> bool:
        """Whether this is the process that reads and writes files, and speaks."""
        return self.rank == 0

    def on_rank_zero(self, action: Callable[[], Result], *, slow: bool = False) -> Result:
        """What `action` gives in the first process, in all of them; an `OSError` there is one everywhere.

        Any other error is the first process's to tell: in the others it is an `OtherProcessError`. They wait as long as
        for any reply, or `patient`ly, for hours.
        """
        if self.size == 1:
            return action()
        told: list[Any] = [None, None]
        failed: BaseException | None = None
        if self.is_rank_zero:
            try:
                told[0] = action()
            except BaseException as error:  # Ctrl-C too: the other processes are waiting
                failed = error
                told[1] = (str(error),) if isinstance(error, OSError) else str(error)
        distributed.broadcast_object_list(told, 0, group=self._slow_group if slow else self._cpu_group)
        if failed is not None:
            raise failed
        if isinstance(told[1], tuple):
            raise OSError(*told[1])
        if told[1] is not None:
            raise OtherProcessError(told[1])
        result: Result = told[0]
        return result

    def all_reduce_max(self, *values: float) -> tuple[float, ...]:
        """The greatest of each value over all processes."""
        if self.size == 1:
            return values
        greatest = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(greatest, distributed.ReduceOp.MAX, group=self._cpu_group)
        return tuple(greatest.tolist())

    def all_reduce(self, *tensors: Tensor) -> None:
        """Each tensor's sum over all processes, in its place (all-reduce)."""
        if self.size > 1:
            for tensor in tensors:
                distributed.all_reduce(tensor, group=self._group_of(tensor))

    def broadcast(self, *tensors: Tensor) -> None:
        """The first process's tensors, in all of them, in their places (broadcast)."""
        if self.size > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, 0, group=self._group_of(tensor))

    def all_gather(self, mine: Sequence[Result]) -> list[Result]:
        """What the processes made of every `size`-th thing each, in the order of the things (all-gather)."""
        if self.size == 1:
            return list(mine)
        parts: list[Any] = [None] * self.size
        distributed.all_gather_object(parts, list(mine), group=self._cpu_group)
        return [parts[place % self.size][place // self.size] for place in range(sum(map(len, parts)))]

    def check_equal(self, tensors: Iterable[Tensor], fault: str) -> None:
        """Raises `RuntimeError` with `fault` where the tensors of the processes, on the CPU, are not bit-identical."""
        if self.size == 1:
            return
        checksum = 0
        for tensor in tensors:
            checksum = zlib.crc32(tensor.contiguous().numpy().data, checksum)
        greatest, least = self.all_reduce_max(checksum, -checksum)
        if greatest != -least:
            raise RuntimeError(f"{fault}: start again from the last checkpoint, and look at the memory of the machines")

    def close(self) -> None:
        """Lets the others go."""
        if self.size > 1:
            distributed.destroy_process_group()

    def _group_of(self, tensor: Tensor) -> Any:
        return None if tensor.is_cuda else self._cpu_group


SINGLE_PROCESS = ProcessGroup()


def restart_count() -> int:
    """How often `torchrun` has started this command anew after a failure."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def join_process_group(device: torch.device) -> tuple[ProcessGroup, torch.device]:
    """Joins the others where `torchrun` has started this process; gives the device that is this process's own."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return SINGLE_PROCESS, device
    if device.type == "cuda":
        number = int(os.environ["LOCAL_RANK"])
        if number >= torch.cuda.device_count():
            raise ValueError(f"this node has {torch.cuda.device_count()} GPUs: give torchrun as many --nproc-per-node")
        device = torch.device("cuda", number)
        torch.cuda.set_device(device)
    # torchrun keeps its store from one attempt to the next, and with it the addresses of processes that are no more.
    store, rank, size = next(rendezvous("env://"))
    distributed.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        store=PrefixStore(f"attempt-{restart_count()}", store),
        rank=rank,
        world_size=size,
        timeout=REPLY_TIMEOUT,
    )
    return ProcessGroup(rank, size), device
