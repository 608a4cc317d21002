"""Compiles the searches for this processor, so that the first translation does not have to wait for the compilation.

Usage: `python -m transduce.search`.
"""

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

from transduce.runtime.device import has_numba
from transduce.runtime.extras import install_command
from transduce.search.cpu_stepper import compile_searches

if __name__ == "__main__":
    if not has_numba():
        print(
            f"transduce: searches are compiled by numba, which is missing: {install_command('int8')}", file=sys.stderr
        )
        sys.exit(2)
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as processes:
        for compiled in [processes.submit(compile_searches, int8=int8) for int8 in (False, True)]:
            compiled.result()
