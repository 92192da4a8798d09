"""One model in several processes that mpirun starts: the same text and logits with 1 to 4 ranks, each with its part of
the weights; and a rank that is killed, stopped or has another file ends all of them, soon and with its number.

Usage: test_ranks.py results|ends MPIRUN TERN MODEL FIXTURES"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from modules import other_mark  # noqa: E402
from processes import LIMIT, Ranks, expect  # noqa: E402

PART, MPIRUN, TERN, MODEL, FIXTURES = sys.argv[1:6]
RANKS = (2, 3, 4)
TENSOR = tuple((n, 1) for n in RANKS)  # processes, and the stages of layers that they are
STAGES = ((2, 2), (3, 3), (4, 2))
SOME = (*TENSOR, (4, 2))
FEW = ((3, 1), (4, 2))
LONG = " ".join(f"Tom saw {n} birds and a dog in the park, and the dog saw Tom." for n in range(24))
IDS = "1,5,9,12,3,7,2"
ranks = Ranks(MPIRUN, TERN)


def staged(stages):
    return ("--pp", str(stages)) if stages > 1 else ()


def check_same(name, *words, text=None, places=TENSOR + STAGES):
    """Every number of ranks and stages writes the same bytes."""
    code, alone, said = ranks.run(1, *words, text=text)
    expect(code == 0 and alone, f"{name} alone: {code}, {said}")
    for n, stages in places:
        code, out, said = ranks.run(n, *words, *staged(stages), text=text)
        expect(code == 0, f"{name} with {n} ranks, {stages} stages: {code}, {said}")
        expect(out == alone, f"{name} with {n} ranks, {stages} stages: other bytes than alone")


def same_results(folder):
    check_same("text", "run", "-m", MODEL, "--greedy", "-n", "40", "-p", "Once upon a time")
    check_same("sampled text", "run", "-m", MODEL, "--seed", "7", "-n", "40", "-p", "Once upon a time", places=SOME)
    check_same("a long prompt", "run", "-m", MODEL, "--greedy", "-n", "8", "-p", LONG, places=STAGES)
    check_same("a piped prompt", "run", "-m", MODEL, "--greedy", "-n", "8", text=b"The dog", places=TENSOR)
    check_same("hidden states", "logits", "-m", MODEL, "--hidden", "--ids", IDS)
    check_same("the exact head", "run", "-m", MODEL, "--greedy", "-n", "20", "--head", "exact", "-p", "Tom", places=SOME)
    check_same("a head in another encoding", "logits", "-m", MODEL, "--head", "q8_0", "--ids", IDS, places=SOME)
    for family in ("bitnet", "llama", "gemma2", "gemma3", "mixtral", "gpt-oss", "qwen3_5", "qwen3_next",
                   "qwen3_5_moe"):
        check_same(family, "logits", "-m", os.path.join(FIXTURES, family), "--ids", IDS, places=SOME)
    for encoding in ("tq2_0", "tq1_0", "t160"):
        path = os.path.join(folder, encoding + ".gguf")
        code, _, said = ranks.run(1, "convert", MODEL, "-o", path, "--type", encoding)
        expect(code == 0, f"convert to {encoding}: {said}")
        check_same(encoding, "logits", "-m", path, "--ids", IDS, places=FEW)
    path = os.path.join(folder, "ragged.gguf")  # rows of 67.5 blocks
    code, _, said = ranks.run(1, "synth", "--preset", "bitnet-3b", "--layers", "1", "--head", "q8_0", "-o", path)
    expect(code == 0, f"a model with rows that are no whole blocks: {said}")
    check_same("rows that are no whole blocks", "logits", "-m", path, "--ids", IDS, places=TENSOR[:2])
    words = ("run", "-m", path, "-p", "a", "-n", "24", "--greedy")
    alone, two = ranks.run(1, *words)[1], ranks.run(1, *words, "--tp", "2")[1]
    expect(any(byte < 9 for byte in alone), f"control characters expected, which no file has as \\xNN: {alone}")
    expect(alone == two, f"a text in a file: {two}, {alone} expected")
    os.remove(path)


def adapters(folder):
    """Each rank has its rows of B; of experts too, and exchanged while a conversation goes on."""
    trained = os.path.join(FIXTURES, "bitnet-train")
    check_differ("an adapter", "logits", "-m", trained, "--ids", IDS, beside=os.path.join(trained, "lora"))
    data = os.path.join(folder, "ids.jsonl")
    with open(data, "w") as file:
        file.write('{"ids": [1, 5, 9, 12, 3, 7, 2, 30, 31, 8, 9]}\n' * 4)
    for name, model in (("experts", os.path.join(FIXTURES, "mixtral")), ("stories", MODEL)):
        lora = os.path.join(folder, name)
        code, _, said = ranks.run(1, "finetune", "-m", model, "--data", data, "--steps", "2", "--lora", "3", "--batch", "1",
                                  "--seq", "10", "--lr", "3e-2", "--warmup", "0", "--val-split", "0", "-o", lora)
        expect(code == 0, f"an adapter of {name}: {said}")
        check_differ(name + " with an adapter", "logits", "-m", model, "--ids", IDS, beside=lora)
    check_same("two adapters", "run", "-m", MODEL, "--greedy", "-n", "20", "-p", "Tom", "--lora", lora + ":0.3", "--lora",
               lora + ":-0.7", places=((2, 1), (3, 3)))
    talk = f"Hello\n/lora add {lora}\nHello again\n/lora scale 1 0.5\nAnd now?\n/lora remove 1\nBye\n"
    check_same("a talk", "chat", "-m", MODEL, "--template", "chatml", "--greedy", "-n", "12", text=talk.encode(), places=((2, 1), (3, 3)))


def check_differ(name, *words, beside):
    """The same bytes on every number of ranks, and others than without the adapter."""
    check_same(name, *words, "--lora", beside, places=FEW)
    with_it, without = ranks.run(1, *words, "--lora", beside)[1], ranks.run(1, *words)[1]
    expect(with_it != without, f"{name}: it changes nothing")


def sessions(folder):
    """A session that some ranks have saved goes on with any number: the files are the same, and what follows."""
    files, texts = set(), set()
    for n, stages in ((1, 1), (2, 1), (3, 3), (4, 2)):
        path = os.path.join(folder, f"saved{n}-{stages}")
        code, _, said = ranks.run(n, "run", "-m", MODEL, "--greedy", "-n", "40", "-p", "Once upon a time", "--save", path,
                                  *staged(stages))
        expect(code == 0, f"{n} ranks save: {code}, {said}")
        with open(path, "rb") as file:
            files.add(file.read())
        code, out, said = ranks.run(n, "run", "-m", MODEL, "--greedy", "-n", "9", "-p", " and", "--restore",
                                    os.path.join(folder, "saved1-1"), *staged(stages))
        expect(code == 0, f"{n} ranks restore: {code}, {said}")
        texts.add(out)
    expect(len(files) == 1 and len(texts) == 1, f"{len(files)} files and {len(texts)} texts: one of each expected")


def weights_read():
    """A rank reads its part of what one process reads for a token."""
    whole = document(1)["statistics"]["weight_bytes_per_token"]
    for n in RANKS:
        said = document(n)
        part = said["statistics"]["weight_bytes_per_token"]
        expect(part < 1.5 * whole / n, f"rank 0 of {n} reads {part} bytes a token, one process {whole}")
        parts = [r["weight_bytes"] for r in said["ranks"]]
        expect(len(parts) == n and whole <= sum(parts) < 1.2 * whole, f"{n} ranks have {parts} of {whole} bytes")
        expect(all(r["peak_bytes"] > r["weight_bytes"] for r in said["ranks"]), f"peak memory: {said['ranks']}")


def stages_read():
    """A stage has its own layers alone, and all together have what one process has."""
    whole = document(1)["statistics"]["weight_bytes_per_token"]
    for n, stages in STAGES:
        parts = [r["weight_bytes"] for r in document(n, *staged(stages))["ranks"]]
        expect(whole <= sum(parts) < 1.2 * whole, f"{n} ranks, {stages} stages have {parts} of {whole} bytes")
        expect(max(parts) < 1.6 * whole / n, f"{n} ranks, {stages} stages have {parts} of {whole} bytes")
    seen = []
    for stage in range(3):
        code, out, said = ranks.run(1, "inspect", MODEL, "--graph", "--pp", f"{stage}/3", "--tp", "1/2")
        first, last = re.search(rf"stage {stage} of 3: layers (\d+) to (\d+) of", out.decode()).groups()
        seen += range(int(first), int(last) + 1)
        for op, there in (("receive", stage > 0), ("send", stage < 2), ("embed", stage == 0), ("output_norm.weight", stage == 2)):
            expect((f" {op}" in out.decode()) == there, f"stage {stage} of 3: {op}: {out.decode()}")
    expect(seen == list(range(len(seen))) and len(seen) > 3, f"layers of 3 stages: {seen}")


def plan():
    """inspect says which rows a rank has: together all, and what is gathered."""
    for n in (2, 3, 4):
        ends = {}
        for rank in range(n):
            code, out, said = ranks.run(1, "inspect", MODEL, "--graph", "--tp", f"{rank}/{n}")
            expect(code == 0 and b"all_gather" in out, f"inspect --tp {rank}/{n}: {code}, {said}")
            for name, first, last, rows in re.findall(r"  (\S+) +sliceDim 0, rows (\d+) to (\d+) of (\d+)", out.decode()):
                ends.setdefault(name, []).append((int(first), int(last), int(rows)))
        expect("output" in ends and len(ends) == 8, f"{n} ranks: {sorted(ends)}")
        for name, parts in ends.items():
            covered = set().union(*(range(first, last + 1) for first, last, _ in parts))
            expect(covered == set(range(parts[0][2])), f"{name}: {parts}")


def slices():
    """The plan as JSON: of 2 stages of 3 ranks each tensor is whole once, in slices that follow each other."""
    for model, n_cut in ((MODEL, 7), (os.path.join(FIXTURES, "mixtral"), 7)):
        seen, whole = {}, {t["name"]: t for t in inspected(model)["tensors"]}
        for stage in range(2):
            for rank in range(2):
                said = inspected(model, "--tp", f"{rank}/2", "--pp", f"{stage}/2")
                expect((said["rank"], said["ranks"], said["stage"], said["stages"]) == (rank, 2, stage, 2), f"{said}")
                for t in said["tensors"]:
                    seen.setdefault(t["name"], []).append((stage, t))
        tables = {"output"} if "output" not in whole else set()  # of a tied table the head has rows
        expect(set(seen) - tables == set(whole), f"{model}: {sorted(set(seen) ^ set(whole))}")
        for name, parts in seen.items():
            expect(len(parts) == 2 and parts[0][0] == parts[1][0], f"{name}: {parts}")
            a, b = parts[0][1], parts[1][1]
            dim = a["sliceDim"]
            if dim is None:
                expect(a == b and a["shape"] == whole[name]["shape"], f"{name}: {a}, {b}, {whole[name]}")
                continue
            expect((a["sliceIdx"], b["sliceIdx"], a["sliceCount"]) == (0, 1, 2), f"{name}: {a}, {b}")
            expect(a["slice"][0] == 0 and b["slice"][0] == a["slice"][1], f"{name}: {a}, {b}")
            expect(a["shape"][dim] + b["shape"][dim] == a["originalShape"][dim], f"{name}: {a}, {b}")
            expect(name in tables or a["originalShape"] == whole[name]["shape"], f"{name}: {a}, {whole.get(name)}")
        cut = {name for name, parts in seen.items() if parts[0][1]["sliceDim"] == 0 and ".0." in name}
        expect(len(cut) == n_cut, f"{model}: {sorted(cut)}")


def inspected(model, *words):
    code, out, said = ranks.run(1, "inspect", model, "--json", *words)
    expect(code == 0, f"inspect {words}: {code}, {said}")
    return json.loads(out)


def document(n, *words):
    code, out, said = ranks.run(n, "run", "-m", MODEL, "--greedy", "-n", "8", "--json", "-p", "Once upon a time", *words)
    expect(code == 0, f"{n} ranks, --json: {said}")
    return json.loads(out)


def other_file(folder, *more):
    """Rank 1 finds another file by the same name."""
    os.mkdir(folder)
    places = [os.path.join(folder, str(i)) for i in range(2)]
    for place in places:
        os.mkdir(place)
        shutil.copy(MODEL, os.path.join(place, "model.gguf"))
    with open(os.path.join(places[1], "model.gguf"), "r+b") as file:
        file.seek(os.path.getsize(MODEL) - 40000)  # of the last tensor
        file.write(b"\x55" * 30000)
    words = ranks.start_words()
    for place in places:
        words += [":"] * (place == places[1]) + ["-n", "1", "-wdir", place, TERN, "run", "-m", "model.gguf", "-p", "a", "-n", "4", *more]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
    said = done.stderr.decode(errors="replace")
    expect(done.returncode != 0 and "rank 1 has another file" in said, f"another file: {done.returncode}, {said}")


def started_by_itself():
    """--tp and --pp start the processes that they ask for: the text of one."""
    words = ("run", "-m", MODEL, "-p", "Once upon a time", "-n", "12", "--temp", "0")
    _, one, _ = ranks.run(1, *words)
    for more, n in ((("--tp", "2"), 2), (("--pp", "2"), 2), (("--tp", "2", "--pp", "2"), 4)):
        code, out, said = ranks.run(1, *words, *more, "--json")
        expect(code == 0, f"{more}: {code}, {said}")
        found = json.loads(out)
        expect(len(found["ranks"]) == n and (found["prompt"] + found["text"]).strip() == one.decode().strip(), f"{more}: {found}")


def refusals():
    for words, says in ((("convert", MODEL, "-o", os.devnull), "runs in one process"),
                        (("run", "-m", MODEL, "-p", "a", "--pp", "3"), "3 stages of 2 processes"),
                        (("run", "-m", MODEL + ".missing", "-p", "a"), "No such file"),
                        (("run", "-m", MODEL, "--lora", "nowhere", "-p", "a"), "nowhere")):
        code, _, said = ranks.run(2, *words)
        expect(code != 0 and says.lower() in said.lower(), f'{words[0]}: "{says}" expected: {code}, {said}')
    for text in ("4/4", "0/17", "-1/2", "1", "0/", "/2", "0/2/3"):
        code, _, said = ranks.run(1, "inspect", MODEL, "--graph", "--tp", text)
        expect(code != 0 and "RANK/N" in said, f"--tp {text}: {code}, {said}")
    code, _, said = ranks.run(3, "run", "-m", MODEL, "-p", "a", "--tp", "2")
    expect(code != 0 and "3 processes found" in said and "2 expected" in said, f"3 for --tp 2: {code}, {said}")
    code, _, said = ranks.run(1, "finetune", "-m", MODEL, "--data", __file__, "-o", os.devnull, "--gpus", "2", "--backend", "cpu")
    expect(code != 0 and "--gpus 2 on the CPU" in said, f"two GPUs that are none: {code}, {said}")
    done = subprocess.run([TERN, "run", "-m", MODEL, "-p", "a", "--tp", "2"], env={"PATH": os.devnull}, capture_output=True)
    expect(done.returncode != 0 and b"mpirun" in done.stderr, f"no mpirun: {done.returncode}, {done.stderr}")
    code, _, said = ranks.run(9, "run", "-m", MODEL, "-p", "a", "--pp", "9")
    expect(code != 0 and "9 stages for a model of 8 layers" in said, f"9 stages: {code}, {said}")
    code, _, said = ranks.run(5, "run", "-m", MODEL, "-p", "a")
    expect(code != 0 and "5 ranks" in said, f"5 ranks of 4 heads: {code}, {said}")


def module_of_another_build(folder):
    """It is known before anything of it is called."""
    os.mkdir(folder)
    shutil.copy(TERN, folder)
    module = os.path.join(folder, "tern-mpi.so")
    mark, other = other_mark(os.path.join(os.path.dirname(TERN), "tern-mpi.so"), module)
    code, _, said = Ranks(MPIRUN, os.path.join(folder, "tern")).run(2, "run", "-m", MODEL, "-p", "a")
    expect(code != 0 and f"{module} belongs to another build of Tern: {other} found, {mark} expected" in said,
           f"a module of another build: {code}, {said}")


def results():
    with tempfile.TemporaryDirectory() as folder:
        same_results(folder)
        adapters(folder)
        sessions(folder)
        other_file(os.path.join(folder, "other"))
        other_file(os.path.join(folder, "other-stage"), "--pp", "2")
        module_of_another_build(os.path.join(folder, "bin"))
    weights_read()
    stages_read()
    plan()
    slices()
    started_by_itself()
    refusals()


def ends():
    """Broken ranks: how soon all end is measured, so nothing else may run beside this part."""
    endless = ("run", "-m", MODEL, "--greedy", "--ignore-eos", "--context-shift", "-n", "16777216", "-p", "Tom")
    ranks.broken(endless, 3, 2, signal.SIGKILL, "rank 2")
    ranks.broken(endless, 3, 1, signal.SIGSTOP, "rank 1 has not answered")
    ranks.broken(endless, 2, 0, signal.SIGSTOP, "rank 0 has not answered")
    ranks.broken((*endless, "--pp", "3"), 3, 2, signal.SIGKILL, "rank 2")
    ranks.broken((*endless, "--pp", "3"), 3, 1, signal.SIGSTOP, "rank 1 has not answered")


{"results": results, "ends": ends}[PART]()
print("ok")
