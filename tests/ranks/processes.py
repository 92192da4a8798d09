"""Processes that mpirun starts, for the tests of ranks: how they are run, found and broken."""
import os
import signal
import subprocess
import time

END_SECONDS = 10  # what a broken rank may take to end all
LIMIT = 300


class Ranks:
    """mpirun and the program that it starts."""

    def __init__(self, mpirun, program):
        self.mpirun, self.program = mpirun, program

    def start_words(self):
        """More ranks than cores, and as root, are fine here."""
        return [self.mpirun, "--allow-run-as-root", "--oversubscribe"]

    def command(self, n, *words):
        """Words of a run of n ranks."""
        return [*(self.start_words() + ["-n", str(n)] if n > 1 else []), self.program, *words]

    def run(self, n, *words, text=None):
        """Exit code, output and what was said of a run that ends."""
        done = subprocess.run(self.command(n, *words), input=text, capture_output=True, timeout=LIMIT,
                              stdin=subprocess.DEVNULL if text is None else None)
        return done.returncode, done.stdout, done.stderr.decode(errors="replace")

    def broken(self, words, n, victim, what, says):
        """All ranks of a run without an end are gone soon after one is broken, which is named."""
        process = subprocess.Popen(self.command(n, *words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        process.stdout.read(200)  # it is at work
        self.break_one(process, n, victim, what, says)

    def break_one(self, process, n, victim, what, says):
        """The same of ranks that run already."""
        pids = pids_of(process, n)
        os.kill(pids[victim], what)
        begin = time.monotonic()
        try:
            _, said = process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            for pid in pids.values():
                os.kill(pid, signal.SIGKILL)
            process.kill()
            fail(f"rank {victim} of {n} got {what!r}: the others still run after {END_SECONDS} s")
        said = said.decode(errors="replace")
        print(f"rank {victim} of {n}, {what!r}: all ended after {time.monotonic() - begin:.1f} s")
        expect(process.returncode != 0, f"rank {victim} got {what!r}, and mpirun gives 0")
        expect(says in said, f'"{says}" expected of rank {victim} with {what!r}: {said}')
        while any(runs(pid) for pid in pids.values()):  # mpirun does not wait for those it kills
            expect(time.monotonic() - begin < 2 * END_SECONDS, f"of {pids} some are left")
            time.sleep(0.05)


def runs(pid):
    """Whether a process is there and has not ended; one that has ended may wait for its parent to look."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def fail(words):
    raise SystemExit("test of ranks: " + words)


def expect(condition, words):
    if not condition:
        fail(words)


def pids_of(process, n):
    """The process ids of the ranks, by number, once all have begun."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    words = file.read().split(b"\0")
                with open(f"/proc/{pid}/stat") as file:
                    parent = file.read().rsplit(") ", 1)[1].split()[1]
            except OSError:
                continue
            rank = [w.split(b"=")[1] for w in words if w.startswith(b"OMPI_COMM_WORLD_RANK=")]
            if rank and int(parent) == process.pid:
                found[int(rank[0])] = int(pid)
        if len(found) == n:
            return found
        time.sleep(0.02)
    return fail(f"{n} ranks did not begin")
