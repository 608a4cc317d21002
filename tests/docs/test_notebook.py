"""The notebook docs/tour.ipynb runs, its model learns to translate, and it is stored without outputs."""

import json
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch

PATH = Path(__file__).parents[2] / "docs" / "tour.ipynb"
CELLS = json.loads(PATH.read_text("utf-8"))["cells"]
CODE = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]


@pytest.mark.parametrize(("steps", "bleu"), [(60, 0), pytest.param(400, 80, marks=pytest.mark.slow)])
def test_every_cell_runs_and_the_model_translates_unseen_sentences(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], steps: int, bleu: float
) -> None:
    """Runs the cells in one namespace, as a kernel does; with fewer steps the model learns less."""
    cells = [text.replace("steps: 400", f"steps: {steps}") for text in CODE]
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path))
    threads, backend = torch.get_num_threads(), matplotlib.get_backend()
    matplotlib.use("agg")
    namespace: dict[str, Any] = {}
    try:
        for number, text in enumerate(cells):
            exec(compile(text, f"cell {number} of {PATH.name}", "exec"), namespace)
        assert len(plt.get_fignums()) == 3
    finally:
        plt.close("all")
        matplotlib.use(backend)
        torch.set_num_threads(threads)
    assert namespace["bleu"].score > bleu
    assert len(namespace["losses"]) == steps
    assert namespace["losses"][-1] < (0.3 if bleu else 2.5) < 3 < namespace["losses"][0]
    assert namespace["by_hand"] == pytest.approx(namespace["ours"][0, 0].numpy(), abs=1e-5)
    if bleu:  # sacreBLEU smooths a precision of 0
        assert namespace["bleu_by_hand"] == pytest.approx(namespace["bleu"].score, abs=1e-9)
    assert torch.stack(namespace["by_loop"]).allclose(namespace["states"][0], atol=1e-6)
    assert namespace["context"].shape == (8,)
    assert "def weights" in capsys.readouterr().out


def test_no_output_is_stored() -> None:
    assert not [cell for cell in CELLS if cell.get("outputs") or cell.get("execution_count")]
