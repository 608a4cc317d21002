"""Resolution: rows are trained once and recorded, the verdict follows from the records, and the layer is attention."""

import json
from collections import Counter

import pytest
import torch
from typer.testing import CliRunner

from transduce.commands import app
from transduce.paper import resolution
from transduce.paper.resolution import Effect, ItemRecall, ItemRecaller, draw_questions, evenly_averaged

CPU = torch.device("cpu")


def invoke(*arguments):
    return CliRunner().invoke(app, ["paper", "resolution", *map(str, arguments)])


@pytest.fixture
def tiny_runs(tmp_path, monkeypatch):
    """Returns the options of runs of three steps, the folder of results, and a count of the runs."""
    monkeypatch.setattr(resolution, "STEPS", (2, 3))
    monkeypatch.setattr(resolution, "TESTED", 16)
    counter, train = Counter(), resolution.train_and_test

    def counted(name, seed, device):
        counter[name, seed] += 1
        return train(name, seed, device)

    monkeypatch.setattr(resolution, "train_and_test", counted)
    out = tmp_path / "out"
    return ["--run", "--device", "cpu", "--work", tmp_path / "work", "--out", out], out, counter


def recalls_of(one_head, eight_heads, seeds=(1, 2, 3), one_item=1.0):
    """Returns results in which the recall of several items depends only on the number of heads."""
    return [
        ItemRecall(name, seed, [recall + seed / 1000] * 2, 1.0, 10, 20, "a machine")
        for name, (items, heads) in resolution.ROWS.items()
        for recall in [one_item if items == 1 else one_head if heads == 1 else eight_heads]
        for seed in seeds
    ]


def test_every_row_is_trained_once_and_printed_again_without_training(tiny_runs):
    options, out, counter = tiny_runs
    result = invoke(*options, "--seeds", 2)
    assert result.exit_code == 0, result.output
    assert counter == Counter({(name, seed): 1 for name in resolution.ROWS for seed in (1, 2)})
    results = json.loads((out / "resolution.json").read_text("utf-8"))["results"]
    assert [(each["row"], each["seed"]) for each in results] == list(counter)
    assert all(len(each["recalls"]) == 2 and 0 <= each["entropy"] <= 3.59 for each in results)
    page = (out / "resolution.md").read_text("utf-8")
    assert page.count("| 2 | ") >= len(resolution.ROWS)
    assert (out / "resolution.svg").read_text("utf-8").count("<svg") == 1
    again = invoke("--out", out)
    assert again.stdout == page + "\n"
    assert sum(counter.values()) == 2 * len(resolution.ROWS)


def test_more_seeds_train_only_what_has_no_record(tiny_runs):
    options, out, counter = tiny_runs
    row = ["--row", "items-2-heads-4"]
    assert invoke(*options, *row, "--seeds", 1).exit_code == 0
    first = json.loads((out / "resolution.json").read_text("utf-8"))["results"]
    assert invoke(*options, *row, "--seeds", 3).exit_code == 0
    assert counter == Counter({("items-2-heads-4", seed): 1 for seed in (1, 2, 3)})
    results = json.loads((out / "resolution.json").read_text("utf-8"))["results"]
    assert [each["seed"] for each in results] == [1, 2, 3]
    assert results[0] == first[0]
    assert "**Verdict: open, because rows are missing.**" in (out / "resolution.md").read_text("utf-8")


def test_without_a_number_of_seeds_there_are_five(tiny_runs):
    options, _, counter = tiny_runs
    assert invoke(*options, "--row", "items-1-heads-1").exit_code == 0
    assert list(counter) == [("items-1-heads-1", seed) for seed in range(1, 6)]


def test_a_record_of_other_settings_does_not_count(tiny_runs, monkeypatch):
    options, _, counter = tiny_runs
    for _ in range(2):
        assert invoke(*options, "--row", "items-1-heads-1", "--seeds", 1).exit_code == 0
        monkeypatch.setattr(resolution, "RATE", 0.5)
    assert counter == Counter({("items-1-heads-1", 1): 2})


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        (recalls_of(0.5, 0.9), "it holds for 2 and 4 items at once"),
        (recalls_of(0.9, 0.9), "it fails for 2 and 4 items at once"),  # heads do not help
        (recalls_of(0.5, 0.9, one_item=0.5), "it fails for 2 and 4 items at once"),  # several items cost nothing
        (recalls_of(0.9, 0.5), "it fails for 2 and 4 items at once"),
        (recalls_of(0.5, 0.9, seeds=(4,)), "it is open for 2 and 4 items at once"),
        (
            [each for each in recalls_of(0.5, 0.9) if each.row != "items-4-heads-8" or each.seed == 2],
            "it holds for 2 items and is open for 4 items at once",
        ),
    ],
)
def test_the_verdict_follows_from_the_records(results, verdict):
    text = resolution.as_text(results)
    for steps in resolution.STEPS:
        assert f"after {steps:,} steps {verdict}" in text.split("**")[1]


def test_an_effect_is_open_while_its_interval_includes_the_least_difference():
    assert Effect(2, 1, [0.5, 0.6, 0.7], [0.5, 0.0, 0.1]).verdict == "open"
    assert Effect(2, 1, [0.5, 0.6, 0.7], [0.02, 0.021, 0.022]).verdict == "fails"
    assert Effect(2, 1, [0.5, 0.6, 0.7], [0.1, 0.11, 0.12]).verdict == "holds"


def test_a_changed_result_changes_the_page(tiny_runs):
    options, out, _ = tiny_runs
    assert invoke(*options, "--row", "items-1-heads-1", "--seeds", 1).exit_code == 0
    path, verdicts = out / "resolution.json", []
    for results in (recalls_of(0.5, 0.9), recalls_of(0.9, 0.9)):
        values = json.loads(path.read_text("utf-8")) | {"results": [each._asdict() for each in results]}
        path.write_text(json.dumps(values), "utf-8")
        verdicts.append(invoke("--out", out).stdout.split("**")[1])
    assert ["holds" in verdict for verdict in verdicts] == [True, False]


def test_the_number_of_heads_changes_neither_parameters_nor_arithmetic(monkeypatch):
    monkeypatch.setattr(resolution, "STEPS", (1,))
    monkeypatch.setattr(resolution, "TESTED", 4)
    for items in resolution.ITEMS:
        costs = set()
        for heads in resolution.HEADS:
            result = resolution.train_and_test(f"items-{items}-heads-{heads}", 1, CPU)
            costs.add((result.parameters, result.multiply_adds))
        ((_, multiply_adds),) = costs
        width, d_ff = resolution.D_MODEL, resolution.D_FF
        projections = 2 * width**2 + 2 * resolution.MEMORY * width**2
        sums = 2 * resolution.MEMORY * width
        assert multiply_adds == projections + sums + width * d_ff + d_ff * items * resolution.VALUES


def test_questions_have_different_keys_and_the_values_of_the_asked_keys():
    questions = draw_questions(50, 4, torch.Generator().manual_seed(1), CPU)
    for keys, values, asked, answers in zip(*(each.tolist() for each in questions), strict=True):
        memory = dict(zip(keys, values, strict=True))
        assert len(memory) == resolution.MEMORY
        assert len(set(asked)) == 4
        assert [memory[key] for key in asked] == answers


def test_even_averaging_leaves_the_most_frequent_value():
    assert evenly_averaged(1) == 1.0
    assert evenly_averaged(2) == (1 + 1 / resolution.VALUES) / 2


def test_even_weights_have_the_entropy_of_the_memory():
    model = ItemRecaller(2, 4)
    torch.nn.init.zeros_(model.attention.query.weight)
    questions = draw_questions(3, 2, torch.Generator().manual_seed(1), CPU)
    with torch.no_grad():
        assert model.entropy(questions) == pytest.approx(torch.tensor(float(resolution.MEMORY)).log2().item())


def test_one_item_is_recalled_after_few_steps(monkeypatch):
    monkeypatch.setattr(resolution, "STEPS", (300,))
    assert resolution.train_and_test("items-1-heads-1", 1, CPU).recalls[0] > 0.5


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--scale", "paper"], "--scale paper: resolution has one size; leave it out"),
        (["--minutes", "2"], "--minutes 2: each run of resolution has the same steps; leave it out"),
        (["--row", "base"], "--row base: choose items-1-heads-1, "),
    ],
)
def test_an_option_that_is_not_used_is_an_error(option, message, tmp_path):
    result = invoke("--run", *option, "--work", tmp_path / "work", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert message in result.stderr
