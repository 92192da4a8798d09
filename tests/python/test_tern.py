#!/usr/bin/env python3
"""The Python package on the bundled models. TERN_LIBRARY and TERN_SOURCE say where things are."""
import math
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

SOURCE = Path(os.environ["TERN_SOURCE"])
sys.path.insert(0, str(SOURCE / "python"))
import tern  # noqa: E402

CHAT, STORIES = SOURCE / "models/chat.gguf", SOURCE / "models/stories.gguf"
FOX_TEXT = "Once upon a time there was a fox and a fox and a"
GREEDY = tern.Sampler(temperature=0)
FOX = [{"role": "user", "content": "Tell me a story about a fox."}]


class Engines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = tern.Engine(CHAT, cpu_n_threads=1)

    @classmethod
    def tearDownClass(cls):
        cls.engine.close()

    def test_describe_and_text(self):
        info = self.engine.describe()
        self.assertEqual(info["architecture"], "bitnet-b1.58")
        self.assertGreater(info["n_vocab"], 1000)
        ids = self.engine.tokenize("a clever fox")
        self.assertEqual(self.engine.detokenize(ids), "a clever fox")
        self.assertTrue(self.engine.is_end(info["eos"]))

    def test_the_same_text_as_the_command(self):
        text = "".join(self.engine.chat(FOX, sampler=tern.Sampler(seed=1)))
        program = Path(os.environ["TERN_PROGRAM"])
        said = subprocess.run([program, "chat", "-m", CHAT, "--seed", "1", "--history", ""], capture_output=True,
                              input=FOX[0]["content"] + "\n", text=True, check=True).stdout
        self.assertEqual(text.strip(), said.strip())

    def test_generation(self):
        with self.engine.session() as session:
            pieces = list(session.generate("Once upon a time", max_tokens=12, sampler=GREEDY))
            self.assertGreater(len(pieces), 3)
            self.assertEqual((session.result["n_generated"], session.result["stop_reason"]), (12, "length"))
            self.assertEqual(len(session.tokens), session.result["n_prompt"] + 12)
            more = "".join(session.generate(max_tokens=4, sampler=GREEDY))
        whole = "".join(self.engine.generate("Once upon a time", max_tokens=16, sampler=GREEDY))
        self.assertEqual("".join(pieces) + more, whole)

    def test_leaving_the_loop_stops(self):
        with self.engine.session() as session:
            for _ in session.generate("Once upon a time", sampler=GREEDY):
                break
            self.assertLessEqual(session.result["n_generated"], 2)
            list(session.generate(max_tokens=1, sampler=GREEDY))

    def test_stops_and_grammars(self):
        text = "".join(self.engine.chat(FOX, sampler=GREEDY, stop=["fox"]))
        self.assertEqual("".join(self.engine.chat(FOX, sampler=GREEDY, stop="fox")), text)
        self.assertNotIn("fox", text)
        schema = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}
        with self.engine.grammar("yes|no", "regex") as either, self.engine.grammar(schema, "json_schema") as form:
            self.assertIn("".join(self.engine.chat(FOX, grammar=either)), ("yes", "no"))
            self.assertRegex("".join(self.engine.chat(FOX, grammar=form)), r'^\{\s*"a"\s*:\s*"[xy]"\s*\}$')
        with self.assertRaises(tern.Malformed):
            self.engine.grammar("root ::= (")

    def test_logits_and_perplexity(self):
        ids = self.engine.tokenize("The fox was sad. The fox went home.")
        with self.engine.session(max_outputs=64) as session:
            session.append(ids)
            logits = session.logits()
            session.truncate(0)
            self.assertEqual(len(logits), self.engine.describe()["n_vocab"])
            found = session.perplexity(ids)
            self.assertAlmostEqual(found["ppl"], math.exp(found["nll"]), places=3)

    def test_saved_sessions(self):
        with tempfile.TemporaryDirectory() as folder, self.engine.session() as one, self.engine.session() as other:
            one.append(self.engine.tokenize("Once upon"))
            one.save(Path(folder, "s"))
            other.restore(Path(folder, "s"))
            self.assertEqual(one.logits(), other.logits())

    def test_vectors(self):
        vector = self.engine.embed("a fox")
        self.assertEqual(len(vector), self.engine.describe()["n_embd"])
        self.assertAlmostEqual(sum(x * x for x in vector), 1, places=4)

    def test_types_of_the_cache(self):
        def bytes_of(kv):
            with self.engine.session(n_ctx=256, kv=kv) as session:
                list(session.generate("Once upon a time", max_tokens=4, sampler=GREEDY))
                return session.kv_bytes

        f16 = bytes_of("f16")
        self.assertEqual(bytes_of("q8_0") * 32, f16 * 17)
        self.assertEqual(bytes_of(("q8_0", "q4_0")) * 32, f16 * 13)
        for kv in ("f8", ("f16",), ("f16", "f8")):
            with self.assertRaisesRegex(ValueError, "q4_0 expected"):
                self.engine.session(kv=kv)

    def test_chain_of_samplers(self):
        def text(**members):
            sampler = tern.Sampler(seed=3, **members)
            return "".join(self.engine.session(n_ctx=128).generate(FOX_TEXT, max_tokens=24, sampler=sampler))

        plain, n_other = text(), 0
        for members in ({"xtc_probability": 1.0}, {"mirostat_tau": 2.0}, {"dynatemp_range": 0.7}, {"top_n_sigma": 0.1},
                        {"dry_multiplier": 5.0, "dry_allowed_length": 1, "dry_breakers": []},
                        {"samplers": ["temperature"], "temperature": 2.0}):
            self.assertEqual(text(**members), text(**members))
            n_other += text(**members) != plain
        self.assertGreater(n_other, 3)
        for members, what in (({"samplers": ["temprature"]}, "temprature"), ({"xtc_probability": 2.0}, "XTC probability is 2"),
                              ({"dry_breakers": [""]}, "DRY breaker 0 has 0 bytes")):
            with self.assertRaisesRegex(ValueError, what):
                text(**members)

    def test_errors(self):
        self.assertEqual(tern.__version__, tern.version())
        with self.assertRaisesRegex(FileNotFoundError, "nope.gguf"):
            tern.Engine("nope.gguf")
        with self.assertRaisesRegex(tern.NotFound, "nope.gguf"):
            tern.Engine("nope.gguf")
        with self.assertRaisesRegex(TypeError, "no option 'backnd'"):
            tern.Engine(CHAT, backnd="cpu")
        with self.assertRaisesRegex(tern.InvalidArgument, "temperature"):
            list(self.engine.generate("a", sampler=tern.Sampler(temperature=-1)))
        wrong = (("hi", "a list of"), ([], "at least one"), ([{"role": "user"}], r"messages\[0\]: .*content"),
                 ([{"role": "user", "content": 5}], r"messages\[0\].content: int found"))
        for messages, what in wrong:
            with self.assertRaisesRegex((TypeError, ValueError), what):
                self.engine.chat_prompt(messages)
        with self.assertRaisesRegex(TypeError, "text: int found"):
            self.engine.embed(5)
        with self.assertRaisesRegex(ValueError, "max_tokens: -1 found"):
            list(self.engine.generate("a", max_tokens=-1))
        with self.assertRaises(tern.ContextFull), self.engine.session(n_ctx=8) as session:
            list(session.generate([1] * 20))
        closed = self.engine.session()
        closed.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            closed.append([1])


class Training(unittest.TestCase):
    def test_adapter(self):
        data = SOURCE / "examples/finetune/logbook.txt"
        with tempfile.TemporaryDirectory() as folder:
            steps = []
            result = tern.finetune(model=STORIES, data=data, split="blank", output=f"{folder}/a", lora_rank=4, steps=3,
                                   seq=64, batch=2, lr=5e-3, on_event=lambda e: steps.append(e) and None)
            losses = [e["loss"] for e in steps if e["kind"] == "step"]
            self.assertEqual(len(losses), 3)
            self.assertEqual(result["n_steps"], 3)
            self.assertEqual(steps[-1]["kind"], "written")
            with tern.Engine(STORIES) as engine, engine.adapter(f"{folder}/a") as adapter, engine.session() as session:
                self.assertEqual(adapter.describe()["rank"], 4)
                plain = "".join(session.generate("1 June.", max_tokens=8, sampler=GREEDY))
                session.truncate(0)
                session.set_adapters((adapter, 40.0))
                self.assertNotEqual(plain, "".join(session.generate("1 June.", max_tokens=8, sampler=GREEDY)))

    def test_callbacks_stop(self):
        data = SOURCE / "examples/finetune/logbook.txt"
        how = {"model": STORIES, "data": data, "split": "blank", "lora_rank": 4, "seq": 64, "batch": 1, "steps": 50}
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(tern.Cancelled):
                tern.finetune(**how, output=f"{folder}/a", on_event=lambda e: e["kind"] != "step")
            with self.assertRaises(ZeroDivisionError):
                tern.finetune(**how, output=f"{folder}/b", on_event=lambda e: 1 / (e["kind"] != "step"))
            with self.assertRaisesRegex(TypeError, "no option 'stepz'"):
                tern.finetune(**how, output=f"{folder}/c", stepz=1)


class Wheels(unittest.TestCase):
    def test_a_wheel_works_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            made = subprocess.run([sys.executable, SOURCE / "python/wheel.py", os.environ["TERN_LIBRARY"], folder],
                                  capture_output=True, text=True, check=True).stdout.strip()
            with zipfile.ZipFile(made) as wheel:
                self.assertTrue(any(name.endswith("/RECORD") for name in wheel.namelist()))
                wheel.extractall(f"{folder}/site")
            env = {k: v for k, v in os.environ.items() if k not in ("TERN_LIBRARY", "PYTHONPATH")}
            said = subprocess.run([sys.executable, "-c", "import tern; print(tern.version(), tern._native.lib._name)"],
                                  env=dict(env, PYTHONPATH=f"{folder}/site"), capture_output=True, text=True)
            self.assertIn(f"{folder}/site/tern/libtern.so", said.stdout, said.stderr)


if __name__ == "__main__":
    unittest.main()
