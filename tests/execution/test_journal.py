"""Journals and owned folders: what a process leaves that may die at any moment."""

import subprocess
import sys
import time

from hypothesis import given
from hypothesis import strategies as st
from zql.execution.journal import Journal, has_writer, records
from zql.execution.owned_folder import OwnedFolder

RECORDS = [{"key": "a", "files": []}, {"key": "b", "text": "two\nlines"}, {"key": "ü"}]


def written(path):
    journal = Journal(str(path))
    for record in RECORDS:
        journal.add(record)
    journal.close()
    return path.read_bytes()


def test_records_come_back_in_order(tmp_path):
    written(tmp_path / "journal")
    assert list(records(str(tmp_path / "journal"))) == RECORDS
    assert list(records(str(tmp_path / "none"))) == []


@given(st.data())
def test_damage_loses_records_and_makes_up_none(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("journal") / "journal"
    whole = bytearray(written(path))
    if data.draw(st.booleans()):
        del whole[data.draw(st.integers(0, len(whole))) :]
    else:
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)
    journal = Journal(str(path))
    journal.add({"key": "later"})
    journal.close()
    found = list(records(str(path)))
    assert found[-1] == {"key": "later"}
    assert all(record in RECORDS for record in found[:-1])


def test_a_folder_is_free_when_its_owner_is_dead(tmp_path):
    (tmp_path / "mine").mkdir()
    code = (
        "import sys, time\n"
        "from zql.execution.owned_folder import OwnedFolder\n"
        f"owned = OwnedFolder.own({str(tmp_path / 'mine')!r})\n"
        "print('ready', flush=True)\n"
        "time.sleep(100)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert OwnedFolder.take(str(tmp_path / "mine")) is None
        process.kill()
        process.wait()
    end = time.monotonic() + 10
    while (owned := OwnedFolder.take(str(tmp_path / "mine"))) is None:
        assert time.monotonic() < end
    assert OwnedFolder.take(str(tmp_path / "mine")) is None, "now it is ours"
    owned.release()
    again = OwnedFolder.take(str(tmp_path / "mine"))
    again.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_journal_knows_whether_its_writer_lives(tmp_path):
    journal = Journal(str(tmp_path / "journal"))
    journal.lock()
    assert has_writer(journal.path)
    journal.close()
    assert not has_writer(journal.path)
