"""The verdict on a claim follows from the records."""

import json
import math
import re
import shutil
from pathlib import Path

import pytest

from micro_run import forked
from transduce.paper import distance_costs, scaled_dot_product
from transduce.paper import table4 as parsers
from transduce.paper.claims import FAILS, HOLDS, OPEN, TESTS, Claim, Evidence, claims, print_claims
from transduce.paper.experiments import EXPERIMENTS
from transduce.paper.system_presets import SYSTEMS
from transduce.paper.table3 import ROWS

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.parametrize(
    ("measured", "half_width", "verdict"),
    [(2.0, 1.0, HOLDS), (-2.0, 1.0, FAILS), (0.5, 1.0, OPEN), (-0.5, 1.0, OPEN), (9.0, math.inf, OPEN)],
)
def test_a_difference_is_judged_by_its_interval(measured: float, half_width: float, verdict: str) -> None:
    assert Evidence("a − b", measured, half_width, seeds=3).verdict == verdict


@pytest.mark.parametrize(
    ("measured", "half_width", "verdict"),
    [(0.1, 0.3, HOLDS), (-0.1, 0.3, HOLDS), (0.1, 0.9, OPEN), (2.0, 1.0, FAILS), (-2.0, 1.0, FAILS), (0.9, 0.5, OPEN)],
)
def test_equality_holds_within_half_a_point(measured: float, half_width: float, verdict: str) -> None:
    assert Evidence("a − b", measured, half_width, seeds=3, is_equality=True).verdict == verdict


def test_one_seed_has_no_interval_in_the_text() -> None:
    assert Evidence("a − b", 1.0, math.inf, seeds=1).text == "a − b: +1.00"
    assert Evidence("a − b", 1.0, 0.5, seeds=3, published=0.25).text == "a − b: +1.00 ± 0.50 (the paper: +0.25)"


def test_a_claim_holds_only_if_all_its_evidence_does() -> None:
    holding, open_, failing = (Evidence("a − b", measured, 1.0, seeds=3) for measured in (2.0, 0.0, -2.0))

    def verdict(*evidence: Evidence) -> str:
        return Claim("it works", "1", "a − b", "table3", "transduce", list(evidence)).verdict

    assert verdict(holding, holding) == HOLDS
    assert verdict(holding, open_) == OPEN
    assert verdict(open_, failing) == FAILS
    assert verdict() == "not run"
    assert verdict(holding._replace(seeds=1)) == OPEN


def test_the_stored_results_have_evidence_for_every_claim() -> None:
    found = claims(RESULTS)
    assert len(found) >= 12
    for claim in found:
        assert claim.evidence, claim.sentence
        assert claim.experiment in EXPERIMENTS
        assert claim.command.startswith(f"transduce paper {claim.experiment} --run")


def test_every_test_is_used_by_a_claim() -> None:
    text = (Path(claims.__code__.co_filename).with_name("claims.yaml")).read_text("utf-8")
    assert sorted(re.findall(r"evidence: (\w+)", text)) == sorted(TESTS)


def test_rows_of_the_commands_exist() -> None:
    rows = {"table2": [system.name for system in SYSTEMS], "table3": ROWS, "table4": parsers.NAMES}
    rows |= {"distance": distance_costs.NAMES, "scaling": scaled_dot_product.NAMES}
    for claim in claims(RESULTS):
        named = re.findall(r"--row (\S+)", claim.command)
        assert set(named) <= set(rows.get(claim.experiment, [])), claim.command


def test_an_unfinished_run_is_no_evidence(tmp_path: Path) -> None:
    table = json.loads((RESULTS / "table3.json").read_text("utf-8"))
    next(row for row in table["results"] if row["name"] == "D1")["seeds"][0]["step"] = 600
    (tmp_path / "table3.json").write_text(json.dumps(table), "utf-8")
    (dropout,) = (claim for claim in claims(tmp_path) if "dropout" in claim.sentence)
    assert dropout.verdict == "not run"


def test_other_results_have_another_verdict(tmp_path: Path) -> None:
    table = json.loads((RESULTS / "table3.json").read_text("utf-8"))
    for row in table["results"]:
        if row["name"] == "D1":
            for seed in row["seeds"]:
                seed["score"], seed["perplexity"] = 1.0, 99.0
    (tmp_path / "table3.json").write_text(json.dumps(table), "utf-8")
    (dropout,) = (claim for claim in claims(tmp_path) if "dropout" in claim.sentence)
    assert (dropout.verdict, dropout.seeds) == (HOLDS, 3)
    page = print_claims(tmp_path)
    assert (tmp_path / "claims.md").read_text("utf-8") == f"{page}\n"
    assert page.count("| not run |") == 1 + sum(claim.experiment != "table3" for claim in claims(tmp_path))


def test_the_page_in_the_documentation_is_what_the_command_prints(tmp_path: Path) -> None:
    for path in RESULTS.glob("*.json"):
        shutil.copy(path, tmp_path)
    assert f"{print_claims(tmp_path)}\n" == (RESULTS / "claims.md").read_text("utf-8")


def test_without_results_the_command_says_what_to_run(tmp_path: Path) -> None:
    ended = forked("paper", "claims", "--out", tmp_path)
    assert ended.code == 2
    assert "`transduce paper table3 --run --out" in ended.error
    assert forked("paper", "claims", "--run", "--out", tmp_path).code == 2
