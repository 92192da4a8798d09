"""A server in several processes that mpirun starts: completions that are asked for at once are those of one process, with
adapters too, which come and go while it serves; kept pages go from one number of ranks to another; and a rank that is
killed or stopped ends all of them.

Usage: test_serve.py MPIRUN TERN MODEL"""
import json
import os
import random
import signal
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from processes import Ranks, expect
from server import Server

MPIRUN, TERN, MODEL = sys.argv[1:4]
PROMPTS = ("Once upon a time", "The dog", "Tom and Ann went to the park", "It was dark", "One day a bird", "In the house")
ranks = Ranks(MPIRUN, TERN)


def make_adapters(folder):
    """Two, of a few steps on tokens by chance."""
    rng = random.Random(5)
    data = os.path.join(folder, "data.jsonl")
    with open(data, "w") as file:
        for _ in range(8):
            file.write(json.dumps({"ids": [rng.randrange(256) for _ in range(25)]}) + "\n")
    for seed in ("1", "2"):
        code, _, said = ranks.run(1, "finetune", "-m", MODEL, "--data", data, "--steps", "3", "--lr", "3e-2", "--batch", "1",
                                  "--seq", "24", "--lora", "3", "--seed", seed, "--val-split", "0", "--warmup", "0",
                                  "-o", os.path.join(folder, "lora" + seed))
        expect(code == 0, f"an adapter: {said}")


def asked_at_once(server):
    """Everything that a server is asked here, and its answers, in order."""
    asked = [dict(prompt=p) for p in PROMPTS]
    asked += [dict(prompt=p + " there") for p in PROMPTS + PROMPTS]  # more than a stage wants at once
    asked += [dict(prompt=p, model="one") for p in PROMPTS[:3]]
    asked += [dict(prompt="Once upon a time there", n=3, temperature=0.9), dict(prompt="A", echo=True)]
    with ThreadPoolExecutor(len(asked)) as pool:
        first = [done[0] for done in pool.map(lambda a: server.complete(**a), asked)]
    load = {"lora_name": "two", "lora_path": "lora2"}
    with ThreadPoolExecutor(4) as pool:  # it comes while others are answered
        busy = [pool.submit(server.complete, p, max_tokens=80) for p in PROMPTS[:3]]
        status, text = server.ask("/v1/load_lora_adapter", load)
        expect(status == 200, f"{server.n} ranks, an adapter: {status}, {text}")
        second = [server.complete(p, model="two")[0] for p in PROMPTS[:2]] + [b.result()[0] for b in busy]
    status, text = server.ask("/v1/load_lora_adapter", {"lora_name": "none", "lora_path": "nowhere"})
    expect(status >= 400 and "nowhere" in text, f"{server.n} ranks, no such adapter: {status}, {text}")
    status, text = server.ask("/v1/unload_lora_adapter", {"lora_name": "two"})
    expect(status == 200, f"{server.n} ranks, without the adapter: {status}, {text}")
    return first + second + [server.complete("The end")[0]]


def same_answers(folder, places):
    words = ("--lora", "one=" + os.path.join(folder, "lora1"), "--lora-dir", folder)
    want = None
    for n, *more in ((1,), *places):
        server = Server(ranks, n, *words, *more, model="m=" + MODEL)
        got = asked_at_once(server)
        server.stop()
        want = want or got
        for a, b in zip(got, want):
            expect(a == b, f"{n} ranks {more}: {a}, one process: {b}")
    plain, adapted = want[:3], want[3 * len(PROMPTS):3 * len(PROMPTS) + 3]
    expect(all(a != b for a, b in zip(plain, adapted)), "an adapter changes nothing")


def kept_pages(folder):
    """What 2 ranks have saved one process finds, and the other way round."""
    prompt = " ".join(PROMPTS * 4)
    for n, then, *more in ((2, 1), (1, 3), (3, 2, "--pp", "3")):
        path = os.path.join(folder, f"pages{n}")
        first = Server(ranks, n, "--cache-file", path, *more, model="m=" + MODEL)
        want, _ = first.complete(prompt)
        first.stop()
        second = Server(ranks, then, "--cache-file", path, model="m=" + MODEL)
        got, usage = second.complete(prompt)
        second.stop()
        expect(usage["prompt_tokens_details"]["cached_tokens"] > 31, f"{then} ranks after {n}: {usage}")
        expect(got == want, f"{then} ranks after {n}: {got}, {want}")


def refusals():
    for words, says in ((("-m", "other=" + MODEL), "2 models in 2 processes"),
                        (("--draft-model", MODEL), "a second engine in 2 processes")):
        code, _, said = ranks.run(2, "serve", "-m", "m=" + MODEL, "--port", "0", *words)
        expect(code != 0 and says in said, f'"{says}" expected: {code}, {said}')


def main():
    with tempfile.TemporaryDirectory() as folder:
        make_adapters(folder)
        same_answers(folder, ((2,), (3,), (2, "--pp", "2"), (3, "--pp", "3"), (4, "--pp", "2")))
        kept_pages(folder)
    refusals()
    for what, says, *more in ((signal.SIGKILL, "rank 1"), (signal.SIGSTOP, "rank 1 has not answered", "--pp", "2")):
        server = Server(ranks, 2, *more, model="m=" + MODEL)
        ranks.break_one(server.process, 2, 1, what, says)
    print("ok")


main()
