"""Chat templates as transformers renders them: Jinja2 with its settings. One JSON object a line on standard input, one a
line on standard output: {"template", "bos", "eos", "variables"} gives {"text"} or {"error"}."""
import datetime
import json
import sys

import jinja2.ext
import jinja2.sandbox

NOW = datetime.datetime.fromtimestamp(1750000000, datetime.timezone.utc)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
environment.filters["tojson"] = tojson
environment.globals["raise_exception"] = raise_exception
environment.globals["strftime_now"] = NOW.strftime


def render(ask):
    template = environment.from_string(ask["template"])
    return template.render(**{"bos_token": ask["bos"], "eos_token": ask["eos"], **ask["variables"]})


for line in sys.stdin:
    try:
        answer = {"text": render(json.loads(line))}
    except Exception as error:  # whatever a template makes Python raise
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
