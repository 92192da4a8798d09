#!/usr/bin/env python3
"""Writes cases.jsonl beside it: [kind, source, text, accepted], by Python's re and by jsonschema. Seed 17."""
import json
import os
import random
import re

import jsonschema

rng = random.Random(17)
ALPHABET = list("abcxyz019 -_.\"\\\n") + ["é", "ß", "€", "你", "😀", "\u07ff", "\u0800", "\uffff", "\U00010000"]


def tree(depth):
    kind = rng.choice(["text", "class", "not", "any"] if depth == 0 else ["all", "either", "repeat", "text", "class"])
    if kind == "text":
        return kind, "".join(rng.choice(ALPHABET) for _ in range(rng.randint(1, 3)))
    if kind in ("class", "not"):
        ranges = []
        for _ in range(rng.randint(1, 3)):
            a, b = rng.choice(ALPHABET), rng.choice(ALPHABET)
            ranges.append((min(a, b), max(a, b)) if rng.random() < 0.5 else (a, a))
        return kind, ranges
    if kind == "any":
        return (kind,)
    if kind == "repeat":
        low = rng.randint(0, 3)
        high = rng.choice([None, low, low + rng.randint(0, 3)])
        return kind, tree(depth - 1), low, max(high, 1) if high is not None else None
    return kind, [tree(depth - 1) for _ in range(rng.randint(1, 3))]


def code(c):
    return "\\U%08x" % ord(c)


def as_gbnf(t):
    kind = t[0]
    if kind == "text":
        return '"' + "".join(c if c.isalnum() else code(c) for c in t[1]) + '"'
    if kind in ("class", "not"):
        return "[" + ("^" if kind == "not" else "") + "".join(code(a) + ("-" + code(b) if a != b else "") for a, b in t[1]) + "]"
    if kind == "any":
        return "."
    if kind == "repeat":
        return "(" + as_gbnf(t[1]) + "){%d,%s}" % (t[2], "" if t[3] is None else t[3])
    return "(" + (" " if kind == "all" else " | ").join(as_gbnf(c) for c in t[1]) + ")"


def escaped(c):
    return c if c.isalnum() or c in "_ " else "\\u%04x" % ord(c) if ord(c) < 0x10000 else c


def as_regex(t):
    kind = t[0]
    if kind == "text":
        return "".join(escaped(c) for c in t[1])
    if kind in ("class", "not"):
        return "[" + ("^" if kind == "not" else "") + "".join(escaped(a) + ("-" + escaped(b) if a != b else "") for a, b in t[1]) + "]"
    if kind == "any":
        return "[^\\u0001]"
    if kind == "repeat":
        return "(?:" + as_regex(t[1]) + "){%d,%s}" % (t[2], "" if t[3] is None else t[3])
    return "(?:" + ("" if kind == "all" else "|").join(as_regex(c) for c in t[1]) + ")"


def sample(t):
    kind = t[0]
    if kind == "text":
        return t[1]
    if kind == "class":
        a, b = rng.choice(t[1])
        c = chr(rng.randint(ord(a), ord(b)))
        return a if 0xD800 <= ord(c) < 0xE000 else c
    if kind in ("not", "any"):
        return rng.choice(ALPHABET)
    if kind == "repeat":
        return "".join(sample(t[1]) for _ in range(rng.randint(t[2], t[3] if t[3] is not None else t[2] + 2)))
    return "".join(sample(c) for c in t[1]) if kind == "all" else sample(rng.choice(t[1]))


def spoiled(text):
    at = rng.randint(0, len(text))
    return rng.choice([text[:at] + rng.choice(ALPHABET) + text[at:], text[:at] + text[at + 1:], text + text[:1]])


def expressions():
    for _ in range(60):
        t = tree(rng.randint(0, 3))
        for _ in range(4):
            text = sample(t)
            text = text if rng.random() < 0.6 else spoiled(text)
            if "\u0001" in text:
                continue
            accepted = re.fullmatch(as_regex(t), text) is not None
            yield "gbnf", "root ::= " + as_gbnf(t), text, accepted
            yield "regex", as_regex(t), text, accepted
    for source, texts in [("\\d{3}-\\w+\\s?", ["123-a_9 ", "12-a", "123-", "123-é", "000-Z\t"]), ("(?:a|bc)*?d", ["d", "abcd", "abd"]),
                          ("[^\\d\\s]+", ["abc", "a1", "é-"]), ("", ["", "a"]), ("a||b", ["a", "", "b", "ab"]), (".", ["a", "\n", "é", ""]),
                          ("[\\w.-]+@[\\w-]+\\.[a-z]{2,4}", ["a.b@c.de", "a@b", "x-y@z-z.info", "a@b.c"])]:
        for text in texts:
            yield "regex", source, text, re.fullmatch(source, text, re.ASCII) is not None


SCHEMAS = [
    {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "ok": {"type": "boolean"}}, "required": ["age"]},
    {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "null"}}, "additionalProperties": {"type": "integer"}},
    {"type": "object", "properties": {"ab": {"type": "string"}, "abc": {"type": "string"}, "é": {}}, "additionalProperties": True},
    {"type": "array", "items": {"type": "integer", "minimum": -12, "maximum": 205}, "minItems": 1, "maxItems": 3},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": {"type": "boolean"}, "minItems": 1, "maxItems": 4},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "null"}], "items": False},
    {"enum": ["x", 1, None, [1, {"a": "é"}], {"k": [True]}]},
    {"const": {"a": [1, 2.5, "\n\"\\"]}},
    {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "integer", "exclusiveMinimum": 99}]},
    {"type": ["string", "null"], "minLength": 2, "maxLength": 4},
    {"type": "string", "pattern": "^[a-z]+\"?\\\\?$"},
    {"type": "string", "pattern": "b+|^c"},
    {"type": "integer", "minimum": 7, "exclusiveMaximum": 1010},
    {"type": "integer", "maximum": -5},
    {"type": "number"},
    {"type": "object"},
    {},
    {"$defs": {"n": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/n"}}, "required": ["v"]}}, "$ref": "#/$defs/n"},
    {"type": "object", "properties": {"l": {"$ref": "#"}, "r": {"oneOf": [{"$ref": "#"}, {"type": "null"}]}}},
]


def order(schema, document):
    """Whether the members come in the order of the schema: what Tern asks for beyond validity."""
    if isinstance(document, list):
        return all(order({}, d) for d in document)
    if not isinstance(document, dict):
        return True
    names = list(schema.get("properties", {}))
    places = [names.index(k) if k in names else len(names) for k in document]
    return places == sorted(places)


def value(depth):
    kind = rng.randint(0, 9 if depth else 6)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind < 4:
        return rng.choice([rng.randint(-300, 1200), rng.randint(-9, 9), rng.choice([0.5, -1.25e-7, 1e20, 7.0])])
    if kind < 7:
        return "".join(rng.choice("abc\"\\\n/é😀\u0001") for _ in range(rng.randint(0, 5)))
    if kind == 7:
        return [value(depth - 1) for _ in range(rng.randint(0, 3))]
    return {rng.choice(["a", "b", "ab", "abc", "abcd", "é", "zz", ""]): value(depth - 1) for _ in range(rng.randint(0, 3))}


def closed(schema):
    """What is not said of other members means none, beside properties."""
    if isinstance(schema, list):
        return [closed(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    out = {k: v if k in ("enum", "const") else closed(v) for k, v in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema and "type" in schema:
        out["additionalProperties"] = False
    return out


def fitting(schema, root, depth=3):
    if "$ref" in schema:
        return fitting(root if schema["$ref"] == "#" else root["$defs"]["n"], root, depth)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return fitting(rng.choice(schema[key]) if depth else schema[key][-1], root, depth)
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type")
    kind = rng.choice(kind) if isinstance(kind, list) else kind
    if kind == "object" and "properties" in schema:
        return {k: fitting(s, root, depth - 1) for k, s in schema["properties"].items()
                if k in schema.get("required", []) or (depth > 0 and rng.random() < 0.7)}
    if kind == "array":
        first = [fitting(s, root) for s in schema.get("prefixItems", [])]
        rest = schema.get("items", {})
        return first + ([fitting(rest, root) for _ in range(rng.randint(0, 3))] if isinstance(rest, dict) else [])
    if kind == "integer":
        return rng.randint(schema.get("minimum", -500) - 1, schema.get("maximum", schema.get("exclusiveMaximum", 1500)))
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "number":
        return rng.choice([0, -1, 0.5, 12e-9, 3e22])
    if kind == "null":
        return None
    return rng.choice(["", "a", "ab", "abcd", "abcde", "bb\"", "b\\", "xbz", "cé", "äöü", "😀😀"]) if kind == "string" else value(2)


def documents():
    for schema in SCHEMAS:
        rule = closed(schema)
        for i in range(26):
            document = fitting(schema, schema) if i % 3 else value(3)
            if not order(schema, document):
                continue
            accepted = jsonschema.Draft202012Validator(rule).is_valid(document)
            if accepted and isinstance(document, float) and "integer" in str(schema):
                continue  # 7.0 is an integer to JSON Schema
            if accepted and re.search(r"\d\.0\b", json.dumps(document)) and "integer" in str(schema):
                continue
            style = rng.choice([{"separators": (",", ":")}, {}, {"indent": 2}])
            if "const" in schema or "enum" in schema:
                style = {"separators": (",", ":")}  # values are compact
            text = json.dumps(document, ensure_ascii=rng.random() < 0.3 and "pattern" not in schema and "é" not in str(schema), **style)
            yield "schema", json.dumps(schema), text, accepted
    for kind, good, bad in [("date", ["2024-02-29", "1999-12-31"], ["2024-13-01", "2024-04-31", "24-01-01", "2024-1-01"]),
                            ("date-time", ["2024-02-29T23:59:59Z", "2024-01-01T00:00:00.5+02:00"], ["2024-01-01 00:00:00Z", "2024-01-01T24:00:00Z"]),
                            ("uuid", ["123e4567-e89b-12d3-A456-426614174000"], ["123e4567e89b12d3a456426614174000", "g23e4567-e89b-12d3-a456-426614174000"])]:
        for text in good + bad:
            yield "schema", json.dumps({"type": "string", "format": kind}), json.dumps(text), text in good


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases.jsonl"), "w") as out:
    for case in list(expressions()) + list(documents()):
        out.write(json.dumps(case) + "\n")
