"""Files elsewhere, here in memory: listing, reading by many threads, publishing."""

from __future__ import annotations

import gzip
import lzma
import threading

import pytest
from zql.errors import StorageError
from zql.storage import files, remote

from conftest import DuckEngine, opened, read


@pytest.fixture(scope="module")
def memory():
    return remote.filesystem("memory://")


@pytest.fixture(scope="module")
def there(memory):
    engine = DuckEngine()
    engine.connection.register_filesystem(remote.thread_safe(memory))
    return engine


@pytest.fixture(autouse=True)
def empty(memory):
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]


def test_patterns(memory):
    for name in ("b/a.jsonl", "b/x/b.jsonl", "b/x/y/c.jsonl", "b/_h/d.jsonl", "b/e.csv"):
        memory.pipe(f"/{name}", b"{}")
    from zql.storage.listing import expand

    def found(*paths):
        return [f.path for f in expand(paths, suffixes=(".jsonl",))]

    assert found("memory://b/*.jsonl") == ["memory://b/a.jsonl"]
    everything = ["memory://b/a.jsonl", "memory://b/x/b.jsonl", "memory://b/x/y/c.jsonl"]
    assert found("memory://b/**/*.jsonl") == everything
    assert found("memory://b") == everything
    assert found("memory://b/{x/b,a}.jsonl") == everything[1::-1]
    with pytest.raises(StorageError, match="memory://b/zz/\\*"):
        found("memory://b/zz/*")
    with pytest.raises(StorageError) as caught:
        found("memory://user:SECRET@b/none.jsonl?signature=SECRET")
    assert "SECRET" not in str(caught.value)


def test_every_format_and_packing(there, memory, tmp_path):
    there.rows(f"COPY (SELECT range AS a FROM range(5)) TO '{tmp_path}/x.parquet'")
    memory.pipe("/b/x.parquet", (tmp_path / "x.parquet").read_bytes())
    lines = b"".join(b'{"a":%d}\n' % i for i in range(5))
    memory.pipe("/b/x.jsonl", lines)
    memory.pipe("/b/x.jsonl.gz", gzip.compress(lines))
    memory.pipe("/b/x.jsonl.xz", lzma.compress(lines))
    memory.pipe("/b/x.csv", b"a\r\n0\n1\r\n2\n3\n4\n")
    for name in ("x.parquet", "x.jsonl", "x.jsonl.gz", "x.jsonl.xz", "x.csv"):
        dataset = opened(there, f"memory://b/{name}")
        wanted = [(i, i, f"memory://b/{name}") for i in range(5)]
        names = ("a", "file_row_number", "filename")
        assert read(there, dataset, names) == wanted
        splits = dataset.format.splits(dataset.files, dataset.options, 8, there)
        assert [r for s in splits for r in read(there, dataset, names, s)] == wanted


def test_many_threads_read_one_handle(memory):
    data = bytes(range(256)) * 4000
    memory.pipe("/b/x", data)
    handle = remote.thread_safe(memory).open("/b/x")
    wrong = []

    def work(seed):
        for i in range(300):
            place = (seed * 7919 + i * 104_729) % len(data)
            handle.seek(place)
            if handle.read(100) != data[place : place + 100]:
                wrong.append(place)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_reading_on_goes_on_in_any_thread(memory):
    data = bytes(range(256)) * 100
    memory.pipe("/b/x", data)
    handle = remote.thread_safe(memory).open("/b/x")
    handle.seek(10)
    found = [handle.read(5)]

    def work():
        found.append(handle.read(1000))

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    found.append(handle.read())
    assert b"".join(found) == data[10:]
    assert handle.read(1) == b""


def test_a_short_answer_is_an_error(memory):
    class Short:
        protocol = "memory"

        def info(self, path):
            return {"size": 10}

        def cat_file(self, path, start, end):
            return b"x" * (end - start - 1)

    handle = remote._Handle(Short(), "memory://b/x", 10)
    with pytest.raises(OSError, match="10 bytes asked, 9 came"):
        handle.read()


def test_publishing(memory):
    staged = files.staging_path("memory://b/out/x.txt")
    with open(staged, "wb") as file:
        file.write(b"hello")
    assert files.publish(staged, "memory://b/out/x.txt") == 5
    assert memory.cat("/b/out/x.txt") == b"hello"
    files.write_whole("memory://b/out/y.txt", b"you")
    assert files.read_whole("memory://b/out/y.txt") == b"you"
    assert [f.path for f in files.list_folder("memory://b/out")] == [
        "memory://b/out/x.txt", "memory://b/out/y.txt"
    ]  # fmt: skip
    files.remove("memory://b/out/x.txt")
    files.remove("memory://b/out/x.txt")
    assert files.read_whole("memory://b/out/x.txt") is None
    assert files.stat_file("memory://b/out") is None


def test_an_unknown_protocol():
    with pytest.raises(StorageError, match=r"cannot read nope://x/y"):
        remote.filesystem("nope://x/y?secret=1")
