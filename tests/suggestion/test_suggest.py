"""`transduce suggest`: probes are short trainings, the best is written, and its recipe trains."""

import pytest

from micro_run import RECIPE, forked
from transduce.evaluation.validation import ValidationScore
from transduce.recipe.recipe import load, read_values
from transduce.run.dry_run import Pace
from transduce.suggestion.candidates import RecipeCandidate
from transduce.suggestion.recipe_choice import Probe, suggest_recipe

LIMITS = "  steps: 12\n"


@pytest.fixture
def recipe(micro):
    """A recipe with corpora and a model that trains within a second."""
    path = micro / "small.yaml"
    path.write_text(RECIPE.replace(LIMITS, ""))
    return path


def test_the_least_loss_is_chosen_and_what_is_given_stays(recipe, monkeypatch):
    """A rate of 10 learns nothing."""
    rates = {"wild": 10.0, "mild": 0.03}

    def two(pairs, given):
        schedule = {"kind": "linear", "warmup": 4}
        return [
            RecipeCandidate(
                name,
                {**given, "training": {**given["training"], "steps": None, "schedule": {**schedule, "peak": peak}}},
            )
            for name, peak in rates.items()
        ]

    class Kept(Probe):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            kept.append(self)

    kept = []
    monkeypatch.setattr("transduce.suggestion.recipe_choice.Probe", Kept)
    monkeypatch.setattr("transduce.suggestion.recipe_choice.candidates", two)
    result = suggest_recipe(read_values(recipe), 1.0, place="x", probe_minutes=0.05, device="cpu", threads=1)
    assert [probed.candidate.name for probed in result.probes] == ["wild", "mild"]
    assert result.best is result.probes[1]
    assert result.values["training"]["minutes"] == 1.0
    assert result.values["model"]["d_model"] == 24
    assert result.best.loss < result.probes[0].loss
    pace = result.pace
    assert result.steps * pace.step <= 60 < (result.steps + 1) * (pace.step + pace.validation)
    assert result.epochs == pytest.approx(result.steps / kept[1].steps_per_epoch)


def test_a_candidate_that_cannot_be_trained_is_left_out(recipe, monkeypatch, log_lines):
    class Refused(Instant):
        def __init__(self, tried, *arguments):
            if tried.training.max_batch_tokens == 1024:
                raise ValueError("training.batch_tokens: the longest pair takes 2,000")

    values = read_values(recipe)
    values["training"].pop("batch_tokens")
    monkeypatch.setattr("transduce.suggestion.recipe_choice.Probe", Refused)
    result = suggest_recipe(values, 1.0, place="x", device="cpu", threads=1)
    assert [probed.candidate.values["training"]["batch_tokens"] for probed in result.probes] == [2048, 4096]
    assert "  left out: training.batch_tokens: the longest pair takes 2,000" in log_lines
    assert any("more --minutes give them more time" in line for line in log_lines)


class Instant:
    """In the place of a probe: a step takes 10 ms, an epoch 100 steps."""

    steps, seconds_per_step, loss, steps_per_epoch = 10, 0.01, 1.0, 100

    def __init__(self, *arguments):
        pass

    def most_steps(self, training):
        return training.steps or 100 * (training.epochs or 10**7)

    def validate(self):
        return Pace(0.01, 0.0), ValidationScore("bleu", 1.0, "signature")


@pytest.mark.parametrize(
    ("minutes", "given", "added"),
    [
        (2.15, {}, {}),
        (2.18, {}, {"regulariser": {"kind": "r_drop", "share": 0.5}}),
        (2.18, {"regulariser": None}, {}),
        (2.18, {"regulariser": {"kind": "r_drop", "strength": 3}}, {}),
        (2.18, {"batch_tokens": 1024}, {}),
        (9.0, {"minutes": 2.0}, {}),
        (9.0, {"epochs": 80}, {}),
    ],
)
def test_a_long_training_of_a_small_corpus_gets_r_drop(recipe, monkeypatch, minutes, given, added):
    """9,000 steps of 14.5 ms take 2.175 minutes."""
    monkeypatch.setattr("transduce.suggestion.recipe_choice.Probe", Instant)
    values = read_values(recipe)
    values["training"].update({"batch_tokens": 2048, **given})
    result = suggest_recipe(values, minutes, place="x", device="cpu", threads=1)
    assert result.adds_r_drop == bool(added)
    assert result.values["training"] == {"minutes": minutes, "steps": None} | values["training"] | added
    fit = int(60 * given.get("minutes", minutes) / (0.0145 if added else 0.01))
    assert result.steps == min(fit, 100 * given.get("epochs", 10**9))
    assert result.epochs == pytest.approx(result.steps / 100)


def test_the_command_writes_a_recipe_that_trains(micro, recipe, tmp_path):
    out = tmp_path / "suggested.yaml"
    options = ["--minutes", "0.3", "--threads", "1"]
    ended = forked("suggest", recipe, "--out", out, *options)
    assert ended.code == 0, ended.error
    assert "1 probes of 0.02 minutes" in ended.error
    text = out.read_text()
    assert text.startswith("# Suggested for ")
    assert "\n  steps: null\n" in text
    assert load(out).training.minutes == 0.3
    trained = forked("train", out, "--out", tmp_path / "run")
    assert trained.code == 0, trained.error
    again = forked("suggest", recipe, "--out", out, *options)
    assert again.code == 2
    assert "--overwrite" in again.error


def test_two_text_files_are_split_inspected_and_tried(tmp_path):
    for ending, word in {"en": "dog", "de": "Hund"}.items():
        lines = (f"{word} {a} {b} {a}\n" for a in "aeiouy" for b in "bcdfghjklm")
        (tmp_path / f"text.{ending}").write_text("".join(lines))
    out = tmp_path / "mine.yaml"
    texts = [tmp_path / "text.en", tmp_path / "text.de"]
    refused = forked("suggest", *texts, "--minutes", "0.3")
    assert refused.code == 2
    assert "--out recipe.yaml" in refused.error
    ended = forked("suggest", *texts, "--minutes", "0.3", "--threads", "1", "--out", out)
    assert ended.code == 0, ended.error
    assert "60 pairs in 60 groups of near-duplicates: 54 for train, 3 for validation, 3 for test" in ended.out
    assert ended.out.endswith(f"next: transduce train {out} --out runs/mine\n")
    assert "source: mine-data/train.en\n" in out.read_text()
    data = load(out).data
    assert (data.source_language, data.target_language) == ("en", "de")
    assert list(data.test) == ["test"]


@pytest.mark.parametrize("minutes", ["nan", "inf", "1e9", "0", "-1"])
def test_minutes_are_a_duration(recipe, minutes):
    ended = forked("suggest", recipe, f"--minutes={minutes}")
    assert ended.code == 2
    assert "--minutes" in ended.error


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("data: {train: {source: train.en, target: train.de}}", "name translations in `data.validation`"),
        ("data: {}", "data.train"),
        ("data: {train: {source: no.en, target: no.de}, validation: {source: no.en, target: no.de}}", "no.en"),
    ],
)
def test_faults_are_named(micro, content, fault):
    path = micro / "faulty.yaml"
    path.write_text(content)
    ended = forked("suggest", path, "--minutes", "1")
    assert ended.code == 2
    assert fault in ended.error
