"""Ranks on two machines with a slow network between them, which delays and loses packets: two network namespaces, a
queue of a few packets between them. The same text and files as of one process, a package by BitTorrent; and once the
line is cut, all end.

Usage: test_network.py MPIRUN TERN MODEL TRAINS TORRENTS (a model that trains; ON: with torrents). Exits with 77
where namespaces are not allowed."""
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

from processes import END_SECONDS, LIMIT, Ranks, expect, runs

SKIPPED = 77
INSIDE = "TERN_TEST_NETWORK"
HOSTS = ("10.77.0.1", "10.77.0.2")
RATE = ("rate", "6mbit", "burst", "4kb", "limit", "12kb")  # packets wait up to 16 ms; more are lost


def sh(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def skip(said):
    print(f"skipped: no networks of one's own here ({said.strip()})")
    sys.exit(SKIPPED)


def enter():
    """Again, in namespaces of its own, which go with it."""
    try:
        code, said = sh("unshare", "--net", "--mount", "sh", "-c", "mount -t tmpfs none /run && ip link set lo up && tc -V")
    except FileNotFoundError as e:
        code, said = 1, str(e)
    if code:
        skip(said)
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "--net", "--mount", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh",
                          sys.executable, *sys.argv])


def make_network():
    """This machine's end is `near`, the other one's `far`, each with such a queue."""
    steps = ["ip netns add far", "ip link set lo up", "ip link add near type veth peer name far",
             "ip link set far netns far", f"ip addr add {HOSTS[0]}/24 dev near", f"ip -n far addr add {HOSTS[1]}/24 dev far",
             "ip link set near up", "ip -n far link set lo up", "ip -n far link set far up",
             "tc qdisc add dev near root tbf " + " ".join(RATE),
             "ip netns exec far tc qdisc add dev far root tbf " + " ".join(RATE)]
    for step in steps:
        code, said = sh(*step.split())
        if code:
            skip(f"{step}: {said}")


def lost():
    """Packets that were lost so far, both ways."""
    there = sh("tc", "-s", "qdisc", "show", "dev", "near")[1]
    back = sh("ip", "netns", "exec", "far", "tc", "-s", "qdisc", "show", "dev", "far")[1]
    return sum(int(n) for n in re.findall(r"dropped (\d+)", there + back))


class Machines(Ranks):
    """Rank 0 here, rank 1 there: what starts it there stands for ssh, and gives that machine a name."""

    def __init__(self, mpirun, program, folder):
        super().__init__(mpirun, program)
        self.agent = os.path.join(folder, "agent")
        with open(self.agent, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nshift\nexec ip netns exec far unshare --uts sh -c "hostname far; $*"\n')
        os.chmod(self.agent, 0o755)

    def start_words(self):
        only = [w for layer in ("oob_tcp", "btl_tcp") for w in ("--mca", layer + "_if_include", "10.77.0.0/24")]
        return [*super().start_words(), "--host", ",".join(HOSTS), "--mca", "plm_rsh_agent", self.agent, "--mca", "btl",
                "tcp,self", *only]


def same_text(machines, model):
    words = ("run", "-m", model, "--greedy", "-n", "24", "-p", "Once upon a time")
    code, alone, said = machines.run(1, *words)
    expect(code == 0, f"alone: {said}")
    for more in ((), ("--pp", "2")):
        before = lost()
        code, out, said = machines.run(2, *words, *more)
        expect(code == 0, f"over a network {more}: {code}, {said}")
        expect(out == alone, f"over a network {more}: {out!r}, alone {alone!r}")
        print(f"text {more}: {lost() - before} packets lost")


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def same_files(machines, model, folder):
    data, made = os.path.join(folder, "ids.jsonl"), []
    random.seed(4)
    with open(data, "w", encoding="utf-8") as file:
        for _ in range(8):
            file.write(json.dumps({"ids": [random.randrange(3, 60) for _ in range(24)]}) + "\n")
    for n in (1, 2):
        out = os.path.join(folder, f"{n}.gguf")
        code, _, said = machines.run(n, "finetune", "-m", model, "--data", data, "--steps", "2", "--batch", "1", "--seq",
                                     "24", "--val-split", "0", "--accumulate", "2", "-o", out)
        expect(code == 0, f"training, {n} ranks: {code}, {said}")
        made.append(read(out))
    expect(made[0] == made[1], "the files of one process and of two over a network differ")


def same_package(program, model, folder):
    """A package by BitTorrent from the other machine."""
    def tern(*words, where=(), cache="here"):
        return subprocess.Popen([*where, program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "HF_HUB_CACHE": os.path.join(folder, cache)})

    source, alone = os.path.join(folder, "package"), ("--no-discovery",)
    expect(tern("package", model, "-o", source).wait(LIMIT) == 0, "no package")
    said, _ = tern("package", source, "--torrent", "--json").communicate(timeout=LIMIT)
    torrent = json.loads(said)["torrent"]["path"]
    far = ("ip", "netns", "exec", "far")
    giver = tern("pull", torrent, "--seed", "--listen", HOSTS[1] + ":6900", *alone, where=far, cache="there")
    giver.stdout.readline()
    before = lost()
    puller = tern("pull", torrent, "--listen", HOSTS[0] + ":0", "--peer", HOSTS[1] + ":6900", *alone)
    out, _ = puller.communicate(timeout=LIMIT)
    giver.terminate()
    giver.wait(LIMIT)
    expect(out.strip(), "no package comes over a network")
    for name in os.listdir(out.strip()):
        expect(read(out.strip(), name) == read(source, name), f"{name} is another one over a network")
    print(f"a package: {lost() - before} packets lost")


def pids_with(program, word):
    """Of a program with this in one of its words, on both machines."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if os.path.basename(words[0]).decode() == program and any(word.encode() in w for w in words):
            found.append(int(pid))
    return found


def cut_line(machines, model):
    """Both ranks end, and one says why. mpirun waits longer for its own daemon there, and is ended here."""
    words = machines.command(2, "run", "-m", model, "--greedy", "-n", "100001", "-p", "Once")
    heard = tempfile.TemporaryFile()  # no pipe, which the daemon there keeps open
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=heard)
    process.stdout.read(100)  # it is at work
    pids = pids_with("tern", "100001")
    expect(len(pids) == 2, f"two ranks run: {pids}")
    sh("ip", "link", "set", "near", "down")
    begin = time.monotonic()
    while any(runs(pid) for pid in pids) and time.monotonic() - begin < END_SECONDS:
        time.sleep(0.05)
    seconds, left = time.monotonic() - begin, [pid for pid in pids if runs(pid)]
    for pid in left + pids_with("orted", HOSTS[0]):
        os.kill(pid, signal.SIGKILL)
    process.kill()
    heard.seek(0)
    said = heard.read().decode(errors="replace")
    expect(not left, f"the line is cut: {len(left)} ranks still run after {END_SECONDS} s: {said}")
    expect("rank 1 has not answered" in said, f"the line is cut: {said}")
    print(f"the line is cut: ended after {seconds:.1f} s")


def main():
    mpirun, program, model, trains, torrents = sys.argv[1:6]
    if INSIDE not in os.environ:
        enter()
    make_network()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        machines = Machines(mpirun, program, folder)
        same_text(machines, model)
        same_files(machines, trains, folder)
        if torrents == "ON":
            same_package(program, model, folder)
        expect(lost() > 100, f"{lost()} packets were lost: more expected of such a line")
        print(f"{lost()} packets were lost in all")
        cut_line(machines, model)
    print("the same text and files over a network that delays and loses")


main()
