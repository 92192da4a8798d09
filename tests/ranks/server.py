"""tern serve in several processes, for the tests of ranks."""
import http.client
import json
import os
import re
import signal
import subprocess

from processes import LIMIT, expect, pids_of


class Server:
    """tern serve in n processes, at a port of its own."""

    def __init__(self, ranks, n, *words, model):
        command = ranks.command(n, "serve", "-m", model, "--port", "0", "--parallel", "20", "--batch", "64", *words)
        self.n = n
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.said = ""
        while "listening on" not in self.said:
            line = self.process.stderr.readline().decode()
            expect(line, f"{n} ranks serve nothing: {self.said}")
            self.said += line
        self.port = int(re.search(r"listening on http://127.0.0.1:(\d+)", self.said).group(1))

    def ask(self, path, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def complete(self, prompt, model="m", logprobs=2, **more):
        """The texts and their probabilities, and what was used. Without probabilities a device may choose tokens."""
        body = {"model": model, "prompt": prompt, "max_tokens": 24, "temperature": 0, "seed": 3, **more}
        if logprobs:
            body["logprobs"] = logprobs
        status, text = self.ask("/v1/completions", body)
        expect(status == 200, f"{self.n} ranks, {prompt}: {status}, {text}")
        answer = json.loads(text)
        return [(c["text"], c["logprobs"]) for c in answer["choices"]], answer["usage"]

    def stop(self):
        """By a signal, as a person would; it ends well."""
        first = pids_of(self.process, self.n)[0] if self.n > 1 else self.process.pid
        os.kill(first, signal.SIGTERM)
        _, said = self.process.communicate(timeout=LIMIT)
        expect(self.process.returncode == 0, f"{self.n} ranks end with {self.process.returncode}: {said.decode()}")
