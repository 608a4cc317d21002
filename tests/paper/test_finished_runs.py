"""Records of trainings: added by several processes, joined as sets of lines, and read from every version."""

import json
import multiprocessing
from pathlib import Path

from transduce.measure.scoring import Score
from transduce.paper.finished_runs import Record, add_record, collect_records, distribute_records, read_records
from transduce.paper.recall_by_distance import RecallRecord
from transduce.paper.resolution import ItemRecall
from transduce.paper.trials import TrialResult
from transduce.storage.locks import wait_for_lock


def _add_records(folder, names):
    for name in names:
        add_record(folder, Record(name, {"seed": 1}, {"bleu": 1.0}))


def test_two_processes_that_write_at_once_lose_nothing(tmp_path):
    names = [[f"{side}-{number}" for number in range(12)] for side in ("left", "right")]
    spawned = multiprocessing.get_context("spawn")
    processes = [spawned.Process(target=_add_records, args=(tmp_path, side)) for side in names]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    lines = (tmp_path / "found.jsonl").read_text().splitlines()
    assert len(lines) == 24
    assert lines == sorted(lines)


def _write_under_lock(folder, path):
    path.with_name("begun").touch()
    with wait_for_lock(folder):
        path.write_text("mine")


def test_a_lock_is_waited_for(tmp_path):
    done = tmp_path / "done"
    process = multiprocessing.get_context("spawn").Process(target=_write_under_lock, args=(tmp_path, done))
    with wait_for_lock(tmp_path):
        process.start()
        while not done.with_name("begun").exists():
            process.join(0.05)
            assert process.is_alive()
        process.join(0.5)
        assert process.is_alive()
        assert not done.exists()
    process.join(120)
    assert done.read_text() == "mine"


def test_records_of_nested_folders_are_collected_and_distributed(tmp_path):
    first, second, out = tmp_path / "first", tmp_path / "second", tmp_path / "out"
    add_record(first / "table3-small", Record("A1", {}, {"bleu": 1.0, "lines": "one\u2028two"}))
    add_record(second / "distance-small" / "lengths", Record("learned", {}, {"bleu": 2.0}))
    for work in (first, second, first):
        distribute_records(out, work)
        collect_records(out, work)
    for work in (first, tmp_path / "new"):
        distribute_records(out, work)
        assert read_records(work / "table3-small", "A1")[0].result == {"bleu": 1.0, "lines": "one\u2028two"}
        assert read_records(work / "distance-small" / "lengths", "learned")[0].result == {"bleu": 2.0}
        assert not read_records(work / "table3-small", "learned")


def test_a_backup_of_a_folder_of_trainings_is_ignored(tmp_path):
    for folder in ("table3-small", "table3-small.bak"):
        add_record(tmp_path / "work" / folder, Record("A1", {}, {"bleu": 1.0}))
    collect_records(tmp_path / "out", tmp_path / "work")
    distribute_records(tmp_path / "out", tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["table3-small"]


def test_a_present_record_is_not_written_again(tmp_path):
    add_record(tmp_path, Record("A1", {}, {"bleu": 1.0}))
    before = (tmp_path / "found.jsonl").stat()
    add_record(tmp_path, Record("A1", {}, {"bleu": 1.0}))
    assert (tmp_path / "found.jsonl").stat().st_ino == before.st_ino
    assert len(read_records(tmp_path, "A1")) == 1


KINDS = {"distance-small": RecallRecord, "resolution-small": ItemRecall}


def test_every_record_beside_our_tables_is_read():
    lines = (Path(__file__).parents[2] / "docs/results/trainings.jsonl").read_text("utf-8").splitlines()
    for line in lines:
        values = json.loads(line)
        kind = KINDS.get(values["folder"], TrialResult)
        kind = Score if values["trial"] == "ensemble" else kind
        assert Record(values["trial"], values["recipe"], values["found"]).parse(kind), line


def test_a_result_with_unknown_fields_is_none():
    assert Record("A1", {}, {"trial": "A1", "recipe": 1, "result": {}}).parse(Record) == Record("A1", 1, {})
    assert Record("A1", {}, {"bleu": 1.0}).parse(Record) is None
