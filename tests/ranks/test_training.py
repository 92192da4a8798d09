"""Training in several processes that mpirun starts: the same losses and files as one process, bit for bit, with 1 to 4
ranks and with another number after a checkpoint; and a rank that is killed, stopped or has another file ends all.

Usage: test_training.py results|ends MPIRUN TERN MODEL FIXTURES"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile

from processes import LIMIT, Ranks, expect

PART, MPIRUN, TERN, MODEL, FIXTURES = sys.argv[1:6]
ranks = Ranks(MPIRUN, TERN)
STEPS = ("--batch", "1", "--seq", "24", "--threads", "1", "--schedule", "constant", "--warmup", "0", "--lr", "2e-3")


def put_data(path, n_vocab, n_rows, seed):
    rng = random.Random(seed)
    with open(path, "w") as file:
        for _ in range(n_rows):
            ids = [rng.randrange(n_vocab) for _ in range(25)]
            file.write(json.dumps({"ids": ids}) + "\n")
    return path


def files_of(folder):
    """What a run has written: its losses, and its model or adapter; its checkpoint."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if name != "lock":
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder)] = file.read()
    return found


def train(n, folder, *words, output="out.gguf"):
    os.makedirs(folder, exist_ok=True)
    code, out, said = ranks.run(n, *words, *STEPS, "-o", os.path.join(folder, output), "--json")
    expect(code == 0, f"{n} ranks, {' '.join(words)}: {code}, {said}")
    return [json.loads(line) for line in out.splitlines()]


def check_same(folder, name, counts, *words, output="out.gguf"):
    """Every number of ranks writes the files of one process."""
    alone = os.path.join(folder, name + "-1")
    events = train(1, alone, *words, output=output)
    want = files_of(alone)
    expect(any("loss.csv" in path for path in want), f"{name}: {list(want)}")
    for n in counts:
        place = os.path.join(folder, f"{name}-{n}")
        shared = train(n, place, *words, output=output)
        got = files_of(place)
        expect(got.keys() == want.keys(), f"{name} with {n} ranks: {sorted(got)}, {sorted(want)} expected")
        for path in want:
            expect(got[path] == want[path], f"{name} with {n} ranks: another {path} than alone")
        steps = [[e for e in all_events if e.get("event") == "step"] for all_events in (events, shared)]
        expect(len(steps[0]) == len(steps[1]) > 1, f"{name}: {len(steps[1])} steps said, {len(steps[0])} expected")
        for a, b in zip(*steps):
            for key in ("loss", "grad_norm", "experts"):
                expect(a.get(key) == b.get(key), f"{name} with {n} ranks: {key} {b.get(key)}, {a.get(key)} expected")
    print(f"{name}: the same files with {counts} ranks")


def same_results(folder, data):
    full = ("finetune", "-m", MODEL, "--data", data, "--steps", "2", "--accumulate")
    check_same(folder, "full", (2, 3, 4), *full, "4")
    check_same(folder, "8bit", (2, 3), *full, "3", "--states", "8bit", "--master", "bf16", "--clamp", "1.5")
    check_same(folder, "lora", (2, 4), *full, "4", "--lora", "3", "--lora-dropout", "0.1", output="adapter")
    check_same(folder, "sgd", (3,), *full, "5", "--optimizer", "sgd", "--checkpoint", "--sync-every", "2")
    check_same(folder, "gradual", (2,), *full, "2", "--blend-steps", "2")
    experts = put_data(os.path.join(folder, "experts.jsonl"), 64, 20, 3)
    check_same(folder, "experts", (2,), "finetune", "-m", os.path.join(FIXTURES, "mixtral"), "--data", experts,
               "--steps", "2", "--accumulate", "3", "--val-split", "0")


def large_tables(folder):
    """A tied table whose logits are made in several chunks of rows, and a tokenizer that rank 0 learns for all."""
    config = os.path.join(folder, "config.json")
    with open(config, "w") as file:
        json.dump({"vocab_size": 70000, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
                   "num_attention_heads": 2, "tie_word_embeddings": True}, file)
    text = os.path.join(folder, "text.txt")
    with open(text, "w") as file:
        rng = random.Random(5)
        file.write(" ".join("".join(rng.choice("abcdefgh") for _ in range(4)) for _ in range(3000)))
    check_same(folder, "tables", (2,), "train", "--config", config, "--data", text, "--steps", "2", "--accumulate", "2",
               "--val-split", "0", "--seq", "256", "--memory-limit", "8G")


def goes_on(folder, data):
    """A checkpoint of two ranks goes on with three, then alone, as one process without a stop."""
    for name, more in (("again", ()), ("again8", ("--states", "8bit")), ("againl", ("--lora", "4"))):
        words = ("finetune", "-m", MODEL, "--data", data, "--accumulate", "3", "--val-split", "0", *more)
        want, got = os.path.join(folder, name + "-want"), os.path.join(folder, name + "-got")
        train(1, want, *words, "--steps", "3")
        train(2, got, *words, "--steps", "1")
        train(3, got, *words, "--steps", "2", "--resume")
        train(1, got, *words, "--steps", "3", "--resume")
        a, b = files_of(want), files_of(got)
        for path in ("out.gguf", "out.train/loss.csv"):
            expect(a[path] == b[path], f"{name}: {path} is another one than without stops")
    print("checkpoints of 2 ranks go on with 3 and 1")


def refusals(folder, data):
    full = ("finetune", "-m", MODEL, "--data", data, "--steps", "2", *STEPS, "-o", os.path.join(folder, "refused.gguf"))
    for words, says in ((("--accumulate", "1"), "accumulate 1 in 2 processes"),
                        (("--accumulate", "2", "--optimizer-in-backward"), "accumulate 2 with the optimiser in the backward"),
                        (("--accumulate", "2", "--dry-run"), "dry run"),
                        (("--accumulate", "2", "--data", "nowhere.txt"), "nowhere.txt")):
        code, _, said = ranks.run(2, *full, *words)
        expect(code != 0 and says in said, f'"{says}" expected: {code}, {said}')


def other_file(folder, data):
    """Rank 1 finds another model by the same name, or is told to do something else."""
    places = [os.path.join(folder, str(i)) for i in range(2)]
    for place in places:
        os.mkdir(place)
        shutil.copy(MODEL, os.path.join(place, "model.gguf"))
    with open(os.path.join(places[1], "model.gguf"), "r+b") as file:
        file.seek(os.path.getsize(MODEL) - 40000)  # of the last tensor
        file.write(b"\x55" * 30000)
    for models, seeds, says in ((["model.gguf"] * 2, "11", "rank 1 has another file"),
                                ([MODEL] * 2, "12", "rank 1: another seed than rank 0 has")):
        words = ranks.start_words()
        for i, place in enumerate(places):
            words += [":"] * i + ["-n", "1", "-wdir", place, TERN, "finetune", "-m", models[i], "--seed", seeds[i]]
            words += ["--data", data, "--accumulate", "2", "-o", os.path.join(folder, "other.gguf"), *STEPS]
            words += ["--steps", "2"]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
        said = done.stderr.decode(errors="replace")
        expect(done.returncode != 0 and says in said, f'"{says}" expected: {done.returncode}, {said}')


def results(folder, data):
    same_results(folder, data)
    large_tables(folder)
    goes_on(folder, data)
    refusals(folder, data)
    other_file(folder, data)


def ends(folder, data):
    """Broken ranks: how soon all end is measured, so nothing else may run beside this part."""
    endless = ("finetune", "-m", MODEL, "--data", data, "--accumulate", "3", "--steps", "1000000", *STEPS,
               "--log-every", "1", "--json", "--overwrite", "-o", os.path.join(folder, "endless.gguf"))
    ranks.broken(endless, 3, 2, signal.SIGKILL, "rank 2")
    ranks.broken(endless, 3, 1, signal.SIGSTOP, "rank 1 has not answered")
    ranks.broken(endless, 2, 0, signal.SIGSTOP, "rank 0 has not answered")


with tempfile.TemporaryDirectory() as place:
    {"results": results, "ends": ends}[PART](place, put_data(os.path.join(place, "data.jsonl"), 256, 40, 1))
print("ok")
