"""Lines of what was found: added, joined as sets, by several processes, and never lost."""

import multiprocessing

from transduce.paper.record import Record, add_record, lay_out, records, take_in
from transduce.storage.locks import wait_for_lock


def _adds(folder, names):
    for name in names:
        add_record(folder, Record(name, {"seed": 1}, {"bleu": 1.0}))


def test_two_processes_that_write_at_once_lose_nothing(tmp_path):
    names = [[f"{side}-{number}" for number in range(12)] for side in ("left", "right")]
    spawned = multiprocessing.get_context("spawn")
    processes = [spawned.Process(target=_adds, args=(tmp_path, each)) for each in names]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    lines = (tmp_path / "found.jsonl").read_text().splitlines()
    assert len(lines) == 24
    assert lines == sorted(lines)


def _waits(folder, path):
    with wait_for_lock(folder):
        path.write_text("mine")


def test_a_turn_is_waited_for(tmp_path):
    done = tmp_path / "done"
    process = multiprocessing.get_context("spawn").Process(target=_waits, args=(tmp_path, done))
    with wait_for_lock(tmp_path):
        process.start()
        process.join(3)
        assert process.is_alive()
        assert not done.exists()
    process.join(120)
    assert done.read_text() == "mine"


def test_folders_of_two_levels_are_carried_and_joined(tmp_path):
    here, there, out = tmp_path / "here", tmp_path / "there", tmp_path / "out"
    add_record(here / "table3-small", Record("A1", {}, {"bleu": 1.0, "lines": "one\u2028two"}))
    add_record(there / "distance-small" / "lengths", Record("learned", {}, {"bleu": 2.0}))
    for work in (here, there, here):
        lay_out(out, work)
        take_in(out, work)
    for work in (here, tmp_path / "new"):
        lay_out(out, work)
        assert records(work / "table3-small", "A1")[0].found == {"bleu": 1.0, "lines": "one\u2028two"}
        assert records(work / "distance-small" / "lengths", "learned")[0].found == {"bleu": 2.0}
        assert not records(work / "table3-small", "learned")


def test_a_copy_beside_the_folders_of_trainings_is_left_out(tmp_path):
    for folder in ("table3-small", "table3-small.bak"):
        add_record(tmp_path / "work" / folder, Record("A1", {}, {"bleu": 1.0}))
    take_in(tmp_path / "out", tmp_path / "work")
    lay_out(tmp_path / "out", tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["table3-small"]


def test_what_is_known_is_not_written_again(tmp_path):
    add_record(tmp_path, Record("A1", {}, {"bleu": 1.0}))
    before = (tmp_path / "found.jsonl").stat()
    add_record(tmp_path, Record("A1", {}, {"bleu": 1.0}))
    assert (tmp_path / "found.jsonl").stat().st_ino == before.st_ino
    assert len(records(tmp_path, "A1")) == 1


def test_what_another_version_found_is_none():
    assert Record("A1", {}, {"trial": "A1", "recipe": 1, "found": {}}).told(Record) == Record("A1", 1, {})
    assert Record("A1", {}, {"bleu": 1.0}).told(Record) is None
