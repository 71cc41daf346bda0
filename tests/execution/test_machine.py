from pathlib import Path

import pytest
from zql.execution import machine
from zql.execution.settings import Secret, Settings

V1 = {
    "cpu.cfs_quota_us": "200000",
    "cpu.cfs_period_us": "100000",
    "memory.limit_in_bytes": "1073741824",
}
V2 = {"cpu.max": "200000 100000", "memory.max": "1073741824"}


@pytest.mark.parametrize("files", [V1, V2], ids=["v1", "v2"])
def test_a_control_group_bounds_processors_and_memory(tmp_path: Path, files, monkeypatch):
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: set(range(64)))
    for name, text in files.items():
        (tmp_path / name).write_text(text + "\n")
    assert machine.allowed_cpus(str(tmp_path)) == 2
    assert machine.allowed_memory(str(tmp_path)) <= 1 << 30


def test_without_a_limit_the_affinity_counts(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {3, 5, 9})
    (tmp_path / "cpu.max").write_text("max 100000")
    (tmp_path / "memory.max").write_text("max")
    assert machine.allowed_cpus(str(tmp_path)) == 3
    assert machine.allowed_memory(str(tmp_path)) > 0


def test_less_than_one_processor_is_one(tmp_path: Path):
    (tmp_path / "cpu.max").write_text("50000 100000")
    assert machine.allowed_cpus(str(tmp_path)) == 1


def test_workers_and_coordinator_stay_within_the_budget():
    settings = Settings(workers=2, memory=4 << 30)
    assert settings.native_memory() * 5 // 4 <= 4 << 30
    assert settings.worker_memory() * 2 * 2 * 5 // 4 <= 4 << 30


def test_secrets_do_not_show():
    settings = Settings(storage_options=Secret({"secret": "FAKE/secret"}))
    assert "FAKE" not in repr(settings)
    assert settings.storage_options.reveal() == {"secret": "FAKE/secret"}
