"""What this process may use of the machine: processors and memory, with control groups heeded."""

from __future__ import annotations

import os
import sys

CGROUP_ROOT = "/sys/fs/cgroup"
_UNLIMITED = 1 << 60
_V1_PARTS = ("", "cpu", "cpu,cpuacct", "memory")


def allowed_cpus(cgroup_root: str = CGROUP_ROOT) -> int:
    """Processors this process may keep busy: present, in its affinity, within its quota; >= 1."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        count = os.cpu_count() or 1
    quota = _cpu_quota(cgroup_root)
    if quota is not None:
        count = min(count, max(1, int(quota)))
    return max(1, count)


def allowed_memory(cgroup_root: str = CGROUP_ROOT) -> int:
    """Bytes of memory that this process and its children may use in all."""
    limits = [_physical_memory()]
    for folder in _folders(cgroup_root):
        for name in ("memory.max", "memory.limit_in_bytes"):
            value = _number(_read(os.path.join(folder, name)))
            if value is not None and 0 < value < _UNLIMITED:
                limits.append(value)
    return min(limits)


def _cpu_quota(cgroup_root: str) -> float | None:
    quotas = []
    for folder in _folders(cgroup_root):
        most, _, per = (_read(os.path.join(folder, "cpu.max")) or "max").partition(" ")
        if most != "max" and per:
            quotas.append(int(most) / int(per))
        quota = _number(_read(os.path.join(folder, "cpu.cfs_quota_us")))
        period = _number(_read(os.path.join(folder, "cpu.cfs_period_us")))
        if quota is not None and period and quota > 0:
            quotas.append(quota / period)
    return min(quotas, default=None)


def _folders(cgroup_root: str) -> list[str]:
    """The root and this process's own groups below it, with every group between."""
    found = [os.path.join(cgroup_root, part) for part in _V1_PARTS]
    if cgroup_root != CGROUP_ROOT:
        return found
    for line in (_read("/proc/self/cgroup") or "").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        folder = os.path.join(cgroup_root, controllers)
        for part in path.split("/"):
            if part not in ("", ".."):
                folder = os.path.join(folder, part)
                found.append(folder)
    return found


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return None


def _number(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 4 << 30


def private_memory(pid: int) -> int:
    """Bytes of memory that a process has to itself; 0 when it is gone or this is no Linux."""
    text = _read(f"/proc/{pid}/statm")
    if not text:
        return 0
    _, resident, shared = (int(word) for word in text.split()[:3])
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def give_memory_back() -> None:
    """Lets allocators return to the system what they hold in case it is needed again."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)
