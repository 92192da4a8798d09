#!/usr/bin/env python3
"""Writes schemas.jsonl beside it: schemas as common tools and projects write them, with texts that are valid and texts
that are not, by jsonschema and by validate.py. Each line of the lists below is a style, a schema and valid texts, whose
members come in the order of the schema; texts that are not valid are made from those. Seed 23."""
import copy
import json
import os
import random

import validate

rng = random.Random(23)
ROWS = []


def add(style, schema, *valid):
    ROWS.append((style, schema, valid))


def obj(properties, required=None, **more):
    out = {"type": "object", "properties": properties}
    if required is None:
        required = list(properties)
    if required:
        out["required"] = required
    return {**out, **more}


S, I, N, B, Z = ({"type": t} for t in ("string", "integer", "number", "boolean", "null"))


def arr(items, **more):
    return {"type": "array", "items": items, **more}


def s(**more):
    return {"type": "string", **more}


def i(**more):
    return {"type": "integer", **more}


def n(**more):
    return {"type": "number", **more}


def enum(*values):
    return {"type": "string", "enum": list(values)}


def ref(name):
    return {"$ref": "#/$defs/" + name}


# zod: closed objects, safe integers, formats with their patterns
SAFE = {"minimum": -9007199254740991, "maximum": 9007199254740991}
D2020 = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
ZMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"
ZUUID = (r"^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}|"
         r"00000000-0000-0000-0000-000000000000|ffffffff-ffff-ffff-ffff-ffffffffffff)$")


def zod(properties, required=None, **more):
    return {**D2020, **obj(properties, required, additionalProperties=False, **more)}


add("zod", zod({"name": s(minLength=1, maxLength=80), "age": i(minimum=0, maximum=130)}), '{"name":"fox","age":36}', '{"name": "X", "age": 0}')
add("zod", zod({"mail": s(format="email", pattern=ZMAIL)}), '{"mail":"a.b-c@example.org"}')
add("zod", zod({"id": s(format="uuid", pattern=ZUUID)}), '{"id":"7b0c9d3e-2f1a-4c5b-9d8e-0a1b2c3d4e5f"}')
add("zod", zod({"count": i(**SAFE), "ratio": n(minimum=0, maximum=1)}), '{"count":-17,"ratio":0.25}', '{"count":9007199254740991,"ratio":1}')
add("zod", zod({"price": n(exclusiveMinimum=0), "cents": n(multipleOf=0.01)}), '{"price":0.5,"cents":19.99}')
add("zod", zod({"step": i(multipleOf=5, **SAFE)}), '{"step":35}', '{"step":0}')
add("zod", zod({"tags": arr(s(minLength=1), minItems=1, maxItems=5)}), '{"tags":["a","b"]}')
add("zod", zod({"when": s(format="date-time"), "day": s(format="date"), "at": s(format="time")}), '{"when":"2024-02-29T10:20:30Z","day":"2023-12-31","at":"23:59:59Z"}')
add("zod", zod({"site": s(format="uri")}), '{"site":"https://example.org/a/b?c=d#e"}')
add("zod", zod({"wait": s(format="duration")}), '{"wait":"P1Y2M3D"}', '{"wait":"PT5M"}')
add("zod", zod({"four": s(format="ipv4"), "six": s(format="ipv6")}), '{"four":"192.168.0.1","six":"2001:db8::1"}')
add("zod", zod({"shape": {"oneOf": [obj({"kind": {"type": "string", "const": "circle"}, "r": n(exclusiveMinimum=0)}, additionalProperties=False),
                                    obj({"kind": {"type": "string", "const": "square"}, "side": N}, additionalProperties=False)]}}),
    '{"shape":{"kind":"circle","r":2}}', '{"shape":{"kind":"square","side":1.5}}')
add("zod", zod({"maybe": {"anyOf": [S, Z]}, "any": {}}), '{"maybe":null,"any":[1,{"a":2}]}')
add("zod", {**D2020, "type": "object", "propertyNames": S, "additionalProperties": N}, '{"a":1,"b":2.5}', '{}')
add("zod", {**D2020, "type": "object", "propertyNames": enum("red", "green"), "additionalProperties": i(minimum=0), "required": ["red", "green"]}, '{"red":1,"green":2}')
add("zod", {**D2020, "type": "array", "prefixItems": [S, I]}, '["a",1]')
add("zod", {**D2020, "type": "array", "prefixItems": [S, N], "items": B}, '["a",1,true,false]')
add("zod", {**D2020, "allOf": [obj({"a": S}), obj({"b": N})]}, '{"a":"x","b":1}')
add("zod", zod({"code": s(pattern="^[A-Z]{2}\\d{4}$"), "slug": s(pattern="^[a-z0-9-]+$", maxLength=20)}), '{"code":"AB1234","slug":"a-b-1"}')
add("zod", zod({"tree": ref("node")}, **{"$defs": {"node": obj({"v": i(**SAFE), "kids": arr(ref("node"))}, additionalProperties=False)}}), '{"tree":{"v":1,"kids":[{"v":2,"kids":[]}]}}')
add("zod", zod({"b64": s(format="base64", contentEncoding="base64", pattern=r"^$|^(?:[0-9a-zA-Z+/]{4})*(?:(?:[0-9a-zA-Z+/]{2}==)|(?:[0-9a-zA-Z+/]{3}=))?$")}), '{"b64":"YWJjZA=="}', '{"b64":""}')
add("zod", zod({"state": enum("on", "off"), "level": {"type": "number", "enum": [1, 2, 3]}, "mode": {"const": "x"}}), '{"state":"on","level":2,"mode":"x"}')
add("zod", zod({"name": {"default": "anon", "type": "string"}, "n": {"anyOf": [i(exclusiveMinimum=0, maximum=9007199254740991), Z]}}, ["name"]), '{"name":"q","n":7}', '{"name":"q"}')
add("zod", zod({"phone": s(format="e164", pattern="^\\+[1-9]\\d{6,14}$"), "host": s(format="hostname")}), '{"phone":"+4915112345678","host":"a.example.org"}')
add("zod", {**D2020, "not": {}}, )

# pydantic: $defs, titles, anyOf with null, discriminator
LEVEL = {"enum": ["low", "mid", "high"], "title": "Level", "type": "string"}
add("pydantic", obj({"level": {"allOf": [ref("Level")], "default": "low"}}, [], title="A", **{"$defs": {"Level": LEVEL}}), '{"level":"mid"}', '{}')
add("pydantic", obj({"level": {"$ref": "#/$defs/Level", "default": "low", "description": "how much"}}, [], **{"$defs": {"Level": LEVEL}}), '{"level":"high"}')
add("pydantic", obj({"name": {"title": "Name", "type": "string"}, "nick": {"anyOf": [S, Z], "default": None, "title": "Nick"}}, ["name"], title="User"), '{"name":"a","nick":null}', '{"name":"a"}')
add("pydantic", obj({"score": n(minimum=0.0, maximum=1.0, title="Score"), "ratio": n(exclusiveMinimum=0.0, exclusiveMaximum=2.5)}), '{"score":0.75,"ratio":1.25}', '{"score":1,"ratio":2.4}')
add("pydantic", obj({"pet": {"discriminator": {"mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}, "propertyName": "kind"}, "oneOf": [ref("Cat"), ref("Dog")]}},
                    **{"$defs": {"Cat": obj({"kind": {"const": "cat", "title": "Kind", "type": "string"}, "lives": I}), "Dog": obj({"kind": {"const": "dog", "type": "string"}, "barks": B})}}),
    '{"pet":{"kind":"cat","lives":9}}', '{"pet":{"kind":"dog","barks":true}}')
add("pydantic", obj({"items": arr(ref("Item"), minItems=1)}, **{"$defs": {"Item": obj({"sku": s(pattern="^[A-Z]{3}-[0-9]{3}$"), "qty": i(exclusiveMinimum=0)})}}), '{"items":[{"sku":"ABC-123","qty":2}]}')
add("pydantic", obj({"when": s(format="date-time"), "gap": s(format="duration"), "id": s(format="uuid")}), '{"when":"2024-01-31T00:00:00+02:00","gap":"P3D","id":"7b0c9d3e-2f1a-4c5b-9d8e-0a1b2c3d4e5f"}')
add("pydantic", obj({"amount": {"anyOf": [N, s(pattern=r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$")], "title": "Amount"}}), '{"amount":12.5}')
add("pydantic", obj({"pair": {"maxItems": 2, "minItems": 2, "prefixItems": [I, S], "type": "array"}}), '{"pair":[1,"a"]}')
add("pydantic", obj({"flags": {"type": "array", "items": enum("r", "w", "x"), "uniqueItems": True}}), '{"flags":["x","r"]}', '{"flags":[]}')
add("pydantic", obj({"data": {"additionalProperties": {"type": "integer"}, "type": "object"}}), '{"data":{"a":1}}')
add("pydantic", obj({"self": {"anyOf": [{"$ref": "#"}, Z]}}, []), '{"self":{"self":null}}')
add("pydantic", obj({"ip": s(format="ipv4"), "net": {"anyOf": [s(format="ipv4"), s(format="ipv6")]}}), '{"ip":"10.0.0.1","net":"::1"}')
add("pydantic", obj({"mail": s(format="email"), "url": s(format="uri", minLength=1, maxLength=2083)}), '{"mail":"a@b.org","url":"http://b.org/"}')
add("pydantic", obj({"n": i(minimum=1, maximum=65535, multipleOf=1)}), '{"n":8080}')
add("pydantic", obj({"map": {"type": "object", "additionalProperties": arr(N), "minProperties": 1}}), '{"map":{"a":[1,2]}}')
add("pydantic", obj({"x": {"type": ["string", "integer", "null"]}}, additionalProperties=False), '{"x":null}', '{"x":5}')
add("pydantic", obj({"steps": arr({"anyOf": [ref("A"), ref("B")]})}, **{"$defs": {"A": obj({"op": {"const": "a"}}), "B": obj({"op": {"const": "b"}, "n": i(minimum=-5, maximum=5)})}}), '{"steps":[{"op":"a"},{"op":"b","n":-3}]}')
add("pydantic", obj({"lat": n(minimum=-90, maximum=90), "lon": n(minimum=-180, maximum=180)}), '{"lat":-33.86,"lon":151.21}')
add("pydantic", obj({"pct": n(minimum=0, maximum=100, multipleOf=0.5)}), '{"pct":99.5}', '{"pct":100}')
add("pydantic", obj({"name": s(minLength=3, maxLength=12, pattern="^[a-z][a-z0-9_]*$")}), '{"name":"abc_1"}')

# tools of MCP servers
MCP = {"$schema": "http://json-schema.org/draft-07/schema#"}


def mcp(properties, required, **more):
    return {**obj(properties, required, additionalProperties=False, **more), **MCP}


add("mcp", mcp({"path": S, "head": n(description="first lines"), "tail": N}, ["path"]), '{"path":"/a/b.txt","head":5}')
add("mcp", mcp({"path": S, "edits": arr({**obj({"oldText": S, "newText": S}), "additionalProperties": False}), "dryRun": {"type": "boolean", "default": False}}, ["path", "edits"]), '{"path":"a","edits":[{"oldText":"x","newText":"y"}],"dryRun":true}')
add("mcp", mcp({"query": s(minLength=1), "limit": i(minimum=1, maximum=100, default=10)}, ["query"]), '{"query":"q","limit":100}')
add("mcp", mcp({"url": s(format="uri"), "max_length": i(exclusiveMinimum=0, exclusiveMaximum=1000000, default=5000), "raw": B}, ["url"]), '{"url":"https://a.org","max_length":999999,"raw":false}')
add("mcp", mcp({"thought": S, "nextThoughtNeeded": B, "thoughtNumber": i(minimum=1), "totalThoughts": i(minimum=1), "branchId": S}, ["thought", "nextThoughtNeeded", "thoughtNumber", "totalThoughts"]), '{"thought":"t","nextThoughtNeeded":true,"thoughtNumber":1,"totalThoughts":3}')
add("mcp", mcp({"entities": arr(obj({"name": S, "entityType": S, "observations": arr(S)}))}, ["entities"]), '{"entities":[{"name":"a","entityType":"b","observations":["c"]}]}')
add("mcp", mcp({"timezone": S, "time": s(pattern="^([01]\\d|2[0-3]):[0-5]\\d$")}, ["timezone", "time"]), '{"timezone":"Europe/Berlin","time":"09:30"}')
add("mcp", mcp({"owner": S, "repo": S, "state": enum("open", "closed", "all"), "labels": arr(S), "page": N}, ["owner", "repo"]), '{"owner":"o","repo":"r","state":"open","labels":["bug"],"page":2}')
add("mcp", {"type": "object", "properties": {}}, '{}')
add("mcp", {"type": "object"}, '{}', '{"a":1}')
add("mcp", mcp({"sql": S, "params": arr({"type": ["string", "number", "boolean", "null"]})}, ["sql"]), '{"sql":"select 1","params":["a",1,null,true]}')
add("mcp", mcp({"selector": S, "width": n(default=800), "height": n(minimum=1, maximum=4096)}, ["selector"]), '{"selector":"#a","width":640,"height":480}')
add("mcp", mcp({"repo_path": {"title": "Repo Path", "type": "string"}, "files": {"items": S, "title": "Files", "type": "array"}, "max_count": {"default": 10, "type": "integer"}}, ["repo_path", "files"], title="GitLog"), '{"repo_path":"/r","files":["a"],"max_count":3}')
add("mcp", mcp({"value": {"anyOf": [S, N, B]}, "unit": {"type": "string", "enum": ["ms", "s", "min"], "x-order": 3}}, ["value"]), '{"value":1.5,"unit":"ms"}')
add("mcp", mcp({"lat": n(minimum=-90, maximum=90), "radius": i(minimum=100, maximum=50000, multipleOf=100)}, ["lat"]), '{"lat":0,"radius":1500}')
add("mcp", mcp({"to": arr(s(format="email"), minItems=1, maxItems=10), "subject": s(maxLength=120)}, ["to", "subject"]), '{"to":["a@b.org"],"subject":"hi"}')
add("mcp", mcp({"action": {"oneOf": [{"const": "start", "title": "Start"}, {"const": "stop", "title": "Stop"}]}}, ["action"]), '{"action":"stop"}')
add("mcp", mcp({"color": s(pattern="^#(?:[0-9a-fA-F]{3}){1,2}$"), "alpha": n(minimum=0, maximum=1)}, ["color"]), '{"color":"#a0B1c2","alpha":0.5}')
add("mcp", mcp({"id": {"oneOf": [i(minimum=1), s(pattern="^[a-z]+$")]}}, ["id"]), '{"id":"abc"}', '{"id":3}')
add("mcp", mcp({"when": s(format="date"), "repeat": i(enum=[1, 7, 30])}, ["when"]), '{"when":"2024-02-28","repeat":7}')

# workflows of GitHub, settings of editors and builders: patternProperties, oneOf, refs with siblings
NAME = {"type": "string", "pattern": "^[_a-zA-Z][a-zA-Z0-9_-]*$"}
D7 = MCP
add("workflow", {**D7, "type": "object", "properties": {"name": S, "on": {"oneOf": [enum("push", "pull_request"), arr(enum("push", "pull_request"), minItems=1)]}, "jobs": {"type": "object", "patternProperties": {"^[_a-zA-Z][a-zA-Z0-9_-]*$": {"$ref": "#/definitions/job"}}, "minProperties": 1, "additionalProperties": False}}, "required": ["on", "jobs"], "additionalProperties": False,
                 "definitions": {"job": obj({"runs-on": S, "timeout-minutes": n(default=360, minimum=1), "steps": arr({"$ref": "#/definitions/step"}, minItems=1)}, ["runs-on"], additionalProperties=False),
                                 "step": {"allOf": [{"oneOf": [{"required": ["uses"]}, {"required": ["run"]}]}], "type": "object", "properties": {"name": S, "uses": S, "run": S, "with": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}}, "additionalProperties": False}}},
    '{"name":"ci","on":"push","jobs":{"build":{"runs-on":"x","timeout-minutes":5,"steps":[{"name":"a","uses":"b"},{"run":"make"}]}}}')
add("workflow", {**D7, "type": "object", "patternProperties": {"^[a-z]+$": S, "^[0-9]+$": I}, "additionalProperties": False}, '{"abc":"x","12":3}')
add("workflow", {**D7, "type": "object", "properties": {"permissions": {"oneOf": [enum("read-all", "write-all"), {"type": "object", "properties": {k: enum("read", "write", "none") for k in ("actions", "contents", "issues")}, "additionalProperties": False}]}}}, '{"permissions":{"contents":"read"}}', '{"permissions":"read-all"}')
add("workflow", {**D7, "type": "object", "properties": {"cron": s(pattern=r"^(((\d+,)+\d+|((\d+|\*)\/\d+)|\d+-\d+|\d+|\*) ?){5,7}$")}, "additionalProperties": False}, '{"cron":"0 5 * * 1"}')
add("workflow", {**D7, "type": "object", "properties": {"env": {"$ref": "#/definitions/env"}, "shell": {"$comment": "any", "anyOf": [S, enum("bash", "sh")]}}, "definitions": {"env": {"oneOf": [{"type": "object", "additionalProperties": {"oneOf": [S, N, B]}}, s(pattern=r"^.*\$\{\{(.|[\r\n])*\}\}.*$")]}}}, '{"env":{"A":"b","C":1},"shell":"zsh"}', '{"env":"${{ x }}"}')
add("workflow", {**D7, "type": "object", "properties": {"inputs": {"type": "object", "patternProperties": {"^[_a-zA-Z][a-zA-Z0-9_-]*$": obj({"description": S, "required": B, "type": enum("boolean", "string")}, ["description"], additionalProperties=False)}, "additionalProperties": False}}}, '{"inputs":{"a_b":{"description":"x","required":true}}}')
add("workflow", {**D7, "type": "object", "properties": {"version": {"type": "integer", "enum": [2]}, "updates": arr(obj({"package-ecosystem": enum("npm", "pip"), "directory": S, "schedule": obj({"interval": enum("daily", "weekly")}), "open-pull-requests-limit": i(minimum=0)}, ["package-ecosystem", "directory", "schedule"], additionalProperties=False), minItems=1)}, "required": ["version", "updates"]}, '{"version":2,"updates":[{"package-ecosystem":"npm","directory":"/","schedule":{"interval":"daily"},"open-pull-requests-limit":5}]}')
add("workflow", {**D7, "type": "object", "properties": {"extends": {"anyOf": [S, arr(S)]}, "rules": {"type": "object", "additionalProperties": {"oneOf": [i(minimum=0, maximum=2), enum("off", "warn", "error"), {"type": "array", "items": [{"enum": ["off", "warn", "error", 0, 1, 2]}], "additionalItems": True, "minItems": 1}]}}}}, '{"extends":"a","rules":{"semi":2,"quotes":["error","single"]}}')
add("workflow", {**D7, "type": "object", "properties": {"compilerOptions": obj({"target": {"anyOf": [enum("ES5", "ES2020"), s(pattern="^([Ee][Ss]([356]|(20(1[56789]|2[012]))|[Nn][Ee][Xx][Tt]))$")]}, "strict": B, "lib": {"type": "array", "uniqueItems": True, "items": enum("DOM", "ES5", "ES6")}}, [])}}, '{"compilerOptions":{"target":"esnext","strict":true,"lib":["DOM","ES6"]}}')
add("workflow", {**D7, "type": "object", "properties": {"a": I, "b": I, "c": I}, "dependencies": {"a": ["b"], "c": {"properties": {"a": i(minimum=5)}, "required": ["a"]}}, "additionalProperties": False}, '{"a":1,"b":2}', '{"a":7,"b":1,"c":2}', '{"b":3}')
add("workflow", {**D7, "type": "object", "properties": {"x": S, "y": S}, "anyOf": [{"required": ["x"]}, {"required": ["y"]}], "additionalProperties": False}, '{"x":"a"}', '{"y":"b"}', '{"x":"a","y":"b"}')
add("workflow", {**D7, "type": "object", "properties": {"file": S, "url": s(format="uri")}, "oneOf": [{"required": ["file"]}, {"required": ["url"]}], "additionalProperties": False}, '{"file":"a"}', '{"url":"http://a/"}')
add("workflow", {**D7, "type": "array", "items": [S, {"type": "integer", "minimum": 3}], "additionalItems": False, "minItems": 1}, '["a"]', '["a",3]')
add("workflow", {**D7, "type": "object", "properties": {"run": S, "if": {"type": ["boolean", "number", "string"]}, "continue-on-error": {"oneOf": [B, s(pattern="^\\$\\{\\{.*\\}\\}$")]}}}, '{"run":"x","if":true,"continue-on-error":"${{ a }}"}')
add("workflow", {**D7, "type": "object", "properties": {"ports": arr({"oneOf": [{"type": "integer", "minimum": 1, "maximum": 65535}, s(pattern="^[0-9]+(:[0-9]+)?$")]}, maxItems=4)}}, '{"ports":[80,"8080:80"]}')
add("workflow", {**D7, "type": "object", "properties": {"matrix": {"patternProperties": {"^(in|ex)clude$": arr({"type": "object"})}, "additionalProperties": {"oneOf": [arr({}, minItems=1), s(pattern="^\\$\\{")]}, "minProperties": 1, "type": "object"}}}, '{"matrix":{"os":["a",1]}}')
add("workflow", {**D7, "type": "object", "properties": {"if": S}, "if": {"properties": {"if": {"const": "a"}}}, "then": {"required": ["if"]}})

# Kubernetes: wide objects, quantities, ports, maps
META = obj({"name": s(pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", maxLength=63), "namespace": S, "labels": {"type": "object", "additionalProperties": S}, "annotations": {"additionalProperties": {"type": ["string", "null"]}, "type": ["object", "null"]}}, ["name"])
QUANTITY = {"oneOf": [{"type": ["string", "null"]}, {"type": "number"}]}
PORT = i(format="int32", minimum=1, maximum=65535)
add("kubernetes", obj({"apiVersion": enum("v1"), "kind": {"const": "ConfigMap"}, "metadata": META, "data": {"type": "object", "additionalProperties": S}}, ["apiVersion", "kind", "metadata"]), '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a-b","labels":{"x":"y"}},"data":{"k":"v"}}')
add("kubernetes", obj({"kind": {"const": "Service"}, "metadata": META, "spec": obj({"type": enum("ClusterIP", "NodePort"), "selector": {"type": "object", "additionalProperties": S}, "ports": arr(obj({"name": S, "port": PORT, "targetPort": {"anyOf": [PORT, S]}, "protocol": enum("TCP", "UDP")}, ["port"]))}, ["ports"])}), '{"kind":"Service","metadata":{"name":"s"},"spec":{"type":"NodePort","ports":[{"port":80,"targetPort":"http","protocol":"TCP"}]}}')
add("kubernetes", obj({"replicas": i(format="int32", minimum=0), "paused": B, "minReadySeconds": i(format="int32")}, []), '{"replicas":3,"minReadySeconds":-1}')
add("kubernetes", obj({"limits": {"type": "object", "additionalProperties": QUANTITY}, "requests": {"type": "object", "additionalProperties": QUANTITY}}, []), '{"limits":{"cpu":"500m","memory":2}}')
add("kubernetes", obj({"containers": arr(obj({"name": s(minLength=1, maxLength=63), "image": S, "env": arr(obj({"name": S, "value": S}, ["name"])), "ports": arr(obj({"containerPort": PORT}))}, ["name", "image"]), minItems=1), "restartPolicy": enum("Always", "Never")}, ["containers"]), '{"containers":[{"name":"c","image":"i:1","env":[{"name":"A","value":"b"}],"ports":[{"containerPort":8080}]}],"restartPolicy":"Never"}')
add("kubernetes", obj({"intOrString": {"x-kubernetes-int-or-string": True, "anyOf": [I, S]}, "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}, []), '{"intOrString":"50%","any":{"a":[1]}}')
add("kubernetes", obj({"matchExpressions": arr({**obj({"key": S, "operator": enum("In", "Exists"), "values": arr(S)}, ["key", "operator"]), "x-kubernetes-map-type": "atomic"})}), '{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}')
add("kubernetes", obj({"schedule": S, "suspend": B, "jobTemplate": {"type": "object", "properties": {"spec": obj({"backoffLimit": i(format="int32", minimum=0, maximum=10), "completions": i(format="int64")}, [])}}}, ["schedule"]), '{"schedule":"* * * * *","jobTemplate":{"spec":{"backoffLimit":4,"completions":1}}}')
add("kubernetes", obj({"host": s(pattern=r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", maxLength=253), "path": s(pattern="^/")}, ["host"]), '{"host":"*.a-b.org","path":"/x"}')
add("kubernetes", obj({"nodePort": i(minimum=30000, maximum=32767), "ip": s(format="ipv4")}, []), '{"nodePort":30080,"ip":"10.0.0.1"}')
add("kubernetes", obj({f"field{k:02d}": {"type": ["string", "null"]} for k in range(40)}, []), '{"field03":"a","field21":null}')
add("kubernetes", obj({"accessModes": {"type": "array", "uniqueItems": True, "items": enum("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany")}}), '{"accessModes":["ReadOnlyMany"]}')
add("kubernetes", {"type": "object", "properties": {"spec": {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": obj({"x": I}), "b": obj({"y": S})}}}}, '{"spec":{"a":{"x":1}}}', '{"spec":{"b":{"y":"z"}}}')
add("kubernetes", obj({"t": s(format="date-time"), "d": s(format="byte"), "w": n(format="double", minimum=0, maximum=256)}, []), '{"t":"2024-01-01T00:00:00Z","d":"YWJj","w":1.5}')

# OpenAPI: nullable, discriminator, exclusive bounds as flags, readOnly, allOf of models
add("openapi", obj({"id": i(format="int64"), "name": s(example="doggie"), "tag": s(nullable=True)}, ["id", "name"]), '{"id":10,"name":"d","tag":null}')
add("openapi", {"allOf": [{"$ref": "#/definitions/Base"}, obj({"size": i(minimum=1)})], "definitions": {"Base": obj({"id": I})}}, '{"id":1,"size":2}')
add("openapi", {"oneOf": [{"$ref": "#/definitions/Cat"}, {"$ref": "#/definitions/Dog"}], "discriminator": {"propertyName": "petType"}, "definitions": {"Cat": obj({"petType": S, "meow": B}), "Dog": obj({"petType": S, "bark": B})}}, '{"petType":"Cat","meow":true}')
add("openapi", obj({"v": n(minimum=0, exclusiveMinimum=True, maximum=10)}), '{"v":0.1}', '{"v":10}')
add("openapi", obj({"status": {"type": "string", "enum": ["a", "b", None], "nullable": True}}), '{"status":null}')
add("openapi", obj({"created": s(format="date-time", readOnly=True), "secret": s(format="password", writeOnly=True), "n": i(format="int32", default=1)}, []), '{"created":"2024-05-05T01:02:03.5Z","secret":"x","n":2147483647}')
add("openapi", {"allOf": [{"$ref": "#/definitions/E"}, {"type": "object", "properties": {"code": i(minimum=400, maximum=599)}}], "definitions": {"E": obj({"code": i(minimum=100, maximum=499), "message": S})}}, '{"code":404,"message":"m"}')
add("openapi", obj({"photoUrls": arr(s(format="uri"), maxItems=3), "meta": {"type": "object", "additionalProperties": True}}, ["photoUrls"]), '{"photoUrls":["http://a.org/x.png"],"meta":{"k":1}}')
add("openapi", {"type": "array", "items": {"$ref": "#/definitions/P"}, "maxItems": 100, "definitions": {"P": obj({"x": n(format="float"), "y": n(format="double")}, externalDocs={"url": "http://a"})}}, '[{"x":1,"y":2.5}]')
add("openapi", {"type": "object", "required": ["type"], "properties": {"type": S}, "discriminator": {"propertyName": "type"}, "anyOf": [obj({"type": enum("a"), "p": I}), obj({"type": enum("b"), "q": I})]}, '{"type":"a","p":1}')
add("openapi", obj({"page": i(minimum=1), "per_page": i(minimum=1, maximum=100, default=30), "sort": s(pattern="^[+-]?(name|date)$")}, []), '{"page":2,"per_page":50,"sort":"-date"}')
add("openapi", obj({"iban": s(minLength=15, maxLength=34, pattern="^[A-Z]{2}[0-9]{2}[A-Z0-9]+$"), "amount": n(multipleOf=0.01, minimum=0.01, maximum=99999.99)}), '{"iban":"DE89370400440532013000","amount":12.34}')
add("openapi", obj({"currency": enum(*[a + b + c for a in "ABCDEU" for b in "MUSR" for c in "DPRS"])}), '{"currency":"EUR"}')
add("openapi", {"type": "object", "properties": {"a": S}, "maxProperties": 2, "additionalProperties": I}, '{"a":"x","b":1}', '{}')
add("openapi", {"type": "object", "properties": {"a": I, "b": I, "c": I}, "minProperties": 2, "maxProperties": 2}, '{"a":1,"c":2}')
add("openapi", {"type": "object", "properties": {"u": {"$ref": "#/definitions/u"}}, "definitions": {"u": {"anyOf": [{"$ref": "#/definitions/v"}, Z]}, "v": s(format="uuid")}}, '{"u":null}', '{"u":"7b0c9d3e-2f1a-4c5b-9d8e-0a1b2c3d4e5f"}')

# functions of OpenAI, and what stands in schema stores
add("function", {"type": "object", "properties": {"location": s(description="City"), "unit": enum("c", "f"), "days": i(minimum=1, maximum=16)}, "required": ["location", "unit", "days"], "additionalProperties": False}, '{"location":"Paris","unit":"c","days":3}')
add("function", {"type": "object", "properties": {"answer": {"type": ["number", "null"], "minimum": -1e6, "maximum": 1e6}, "steps": arr(obj({"why": S, "out": S}, additionalProperties=False), maxItems=8)}, "required": ["answer", "steps"], "additionalProperties": False}, '{"answer":-12.5,"steps":[{"why":"a","out":"b"}]}')
add("function", {"$id": "https://example.org/a.json", "type": "object", "properties": {"b": {"$ref": "b.json"}, "c": {"$ref": "#here"}}, "required": ["b"], "$defs": {"B": {"$id": "b.json", "type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "required": ["n"], "$defs": {"N": i(minimum=3)}}, "H": {"$anchor": "here", "const": 7}}}, '{"b":{"n":3},"c":7}')
add("function", {"type": "string", "pattern": "^(?=.*[0-9])(?=.*[a-z])[a-z0-9]{4,8}$"}, '"abc1"', '"a1b2c3d4"')
add("function", {"type": "string", "pattern": "colou?r", "minLength": 7, "maxLength": 12}, '"a color."', '"colours x"')
add("function", {"type": "object", "properties": {"a": S, "b": S}, "dependentRequired": {"a": ["b"]}, "unevaluatedProperties": False}, '{"a":"x","b":"y"}', '{"b":"y"}')
add("function", {"allOf": [obj({"a": S}), obj({"b": S})], "unevaluatedProperties": False}, '{"a":"x","b":"y"}')
add("function", {"type": "object", "properties": {"foo_a": {"minLength": 2}}, "patternProperties": {"^foo_": {"type": "string"}}, "additionalProperties": {"type": "integer"}}, '{"foo_a":"xy","foo_b":"z","n":1}')
add("function", {"type": "object", "propertyNames": {"pattern": "^[a-z]{2,5}$"}, "additionalProperties": B, "maxProperties": 3}, '{"ab":true,"cde":false}')
add("function", {"type": "integer", "anyOf": [{"minimum": 10, "maximum": 20}, {"minimum": 100}], "multipleOf": 3}, '12', '102')
add("function", {"type": "number", "multipleOf": 0.25, "exclusiveMinimum": -1, "maximum": 2}, '-0.75', '2', '1.5')
add("function", {"type": "integer", "minimum": 0.5, "exclusiveMaximum": 3.0}, '1', '2')
add("function", {"enum": ["a", "b", "c", 1, 2, None], "type": ["string", "null"]}, '"a"', 'null')
add("function", {"const": "x", "enum": ["x", "y"], "minLength": 1}, '"x"')
add("function", {"type": "array", "items": i(minimum=1, maximum=45), "uniqueItems": True, "minItems": 6, "maxItems": 6}, '[1,5,7,20,33,45]')
add("function", {"type": "array", "items": B, "uniqueItems": True}, '[true,false]', '[]')
add("function", {"type": "array", "contains": I})
add("function", {"type": "array", "items": S, "uniqueItems": True})
add("function", {"type": "object", "properties": {"p": s(format="json-pointer"), "q": s(format="uri-reference"), "r": s(format="relative-json-pointer"), "i": s(format="iri"), "m": s(format="idn-email"), "h": s(format="idn-hostname")}}, '{"p":"/a/b~1c","q":"../a?b#c","r":"1/a","i":"http://a.org/","m":"a@b.org","h":"a.org"}')
add("function", {"type": "string", "format": "date", "maxLength": 10}, '"2000-02-29"')
add("function", {"oneOf": [i(multipleOf=3), i(multipleOf=5)]})
add("function", {"type": "object", "properties": {"deep": obj({"a": obj({"b": obj({"c": obj({"d": obj({"e": arr(arr(arr(I)))})})})})})}}, '{"deep":{"a":{"b":{"c":{"d":{"e":[[[1]]]}}}}}}')


OTHERS = [None, True, -1, 0, 1.5, 7, 1e9, "", "a", "zz top", [], {}, [1], {"zzz": 1}]


def spoil(value):
    """One place of a value is another."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        out, key = dict(value), rng.choice(list(value))
        if rng.random() < 0.3:
            del out[key]
        else:
            out[key] = spoil(out[key])
        return out
    if isinstance(value, list) and value and rng.random() < 0.8:
        out, at = list(value), rng.randrange(len(value))
        if rng.random() < 0.3:
            out.insert(at, out[at])
        else:
            out[at] = spoil(out[at])
        return out
    if isinstance(value, str) and value and rng.random() < 0.6:
        at = rng.randrange(len(value))
        return value[:at] + rng.choice(["", "!", value[at] * 2, value * 9]) + value[at + 1:]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and rng.random() < 0.6:
        return rng.choice([-value - 1, value + 0.001, value * 1000, value + 1])
    return copy.deepcopy(rng.choice(OTHERS))


def invalid_of(schema, valid):
    found = []
    for _ in range(60):
        text = json.dumps(spoil(json.loads(rng.choice(valid)))) if valid else "{}"
        if valid and text not in found and not validate.is_valid(schema, text):
            found.append(text)
    return found[:8]


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "schemas.jsonl"), "w") as out:
        for style, schema, valid in ROWS:
            for text in valid:
                assert validate.is_valid(schema, text), (schema, text)
            row = {"style": style, "schema": schema, "valid": list(valid), "invalid": invalid_of(schema, valid)}
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
    print(len(ROWS), "schemas")


main()
