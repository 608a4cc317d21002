"""The compiled loss of R-Drop has the same bits when it is just compiled and when it comes from the cache.

A run that compiled it and the same run after a kill, which loaded it, had other weights.
"""

import os
import subprocess
import sys

import pytest

pytest.importorskip("numba")

PROGRAM = """
import hashlib, torch
from transduce.model.compiled.losses import row_losses

torch.manual_seed(3)
for dtype in (torch.float32, torch.bfloat16):
    logits, tokens = (8 * torch.randn(2, 40, 323)).to(dtype), torch.randint(323, (40,))
    results = row_losses(logits, tokens, 0.1, 0.5)
    print([hashlib.sha256(each.float().numpy().tobytes()).hexdigest() for each in results])
"""


def test_code_from_the_cache_has_the_bits_of_code_just_compiled(tmp_path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    compiled, cached = (
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    )
    assert list(tmp_path.rglob("*.nbc"))
    assert compiled == cached
