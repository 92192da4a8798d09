"""The folder in which the commands of a page run: models, texts, and a hub of this machine."""
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "hub"))
from hub_server import Hub, Repository  # noqa: E402

LINKS = {"MODEL": "models/stories.gguf", "model.gguf": "models/chat.gguf", "models": "models", "examples": "examples",
         "scripts": "scripts", "FOLDER": "tests/data/models/qwen3-bitnet"}
TALKS = """{"messages": [{"role": "user", "content": "Who are you?"}, {"role": "assistant", "content": "A keeper."}]}
{"messages": [{"role": "user", "content": "Where do you live?"}, {"role": "assistant", "content": "By the sea."}]}
"""
QUESTIONS = """{"question": "Who flies?", "choices": {"text": ["a bird", "a fish"], "label": ["A", "B"]}, "answerKey": "A"}
{"question": "What is wet?", "choices": {"text": ["a stone", "the sea"], "label": ["A", "B"]}, "answerKey": "B"}
"""
SOURCES = Path(__file__).resolve().parents[2]
UNKNOWN = [("ORG/NAME", "Q4_K_M")]  # what the hub has beside the known models that are one file


def fill(work):
    """Links to the models (in the Hugging Face form: FOLDER), examples and scripts; a text, conversations, questions."""
    for name, target in LINKS.items():
        (work / name).symlink_to(SOURCES / target)
    (work / "text.txt").write_text((SOURCES / "examples/finetune/logbook.txt").read_text()[:3000])
    (work / "talks.jsonl").write_text(TALKS)
    (work / "arc.jsonl").write_text(QUESTIONS)


def hub():
    """A hub on which each known model that is one file is the bundled one."""
    started, model = Hub(), (SOURCES / "models/chat.gguf").read_bytes()
    known = re.findall(r'"([\w.-]+/[\w.-]+):(\w+)"', (SOURCES / "src/hub/known.def").read_text())
    for name, tag in known + UNKNOWN:
        started.repositories[name] = Repository({f"model-{tag}.gguf": model})
    return started
