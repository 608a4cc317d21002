"""Training outside of the main thread, where no signal may be handled."""

from concurrent.futures import ThreadPoolExecutor

from transduce.recipe.recipe import load
from transduce.run.train import TrainOptions, run_training


def test_a_training_runs_in_any_thread(micro, tmp_path, trained) -> None:
    recipe = load(micro / "recipe.yaml")
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(run_training, recipe, tmp_path / "run", TrainOptions("cpu", 1)).result()
    assert result.step == 12
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()
