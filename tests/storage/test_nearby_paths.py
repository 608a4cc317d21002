"""A name that does not exist is answered with the one that was probably meant."""

from pathlib import Path

import pytest

from transduce.settings import did_you_mean
from transduce.storage.nearby_paths import did_you_mean_model, did_you_mean_path


@pytest.mark.parametrize(
    ("name", "meant"), [("bse", "base"), ("transformer_base", "base"), ("transformer-big", "big"), ("xyz", None)]
)
def test_the_most_similar_name_is_meant(name: str, meant: str | None) -> None:
    assert did_you_mean(name, ["base", "big", "tiny"]) == (f"; did you mean `{meant}`?" if meant else "")


def test_the_most_similar_file_of_the_folder_is_meant(tmp_path: Path) -> None:
    (tmp_path / "train.de").touch()
    assert did_you_mean_path(tmp_path / "trian.de") == f"; did you mean `{tmp_path / 'train.de'}`?"
    assert did_you_mean_path(tmp_path / "other") == ""
    assert did_you_mean_path(tmp_path / "missing" / "train.de") == ""


def test_a_model_is_found_inside_beside_and_among_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = Path("runs") / "demo"
    model.mkdir(parents=True)
    (model / "manifest.json").touch()
    (Path("runs") / "other").mkdir()
    for path in (model / "model.safetensors", Path("runs"), Path("runs") / "dmeo", Path("demo")):
        assert did_you_mean_model(path, "manifest.json") == f"; did you mean `{model}`?", path
    assert did_you_mean_model(Path("runs") / "mine", "manifest.json") == ""
