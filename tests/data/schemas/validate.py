"""Whether a text is valid by a JSON Schema: jsonschema, with exact decimals, and formats by Python's own modules."""
import datetime
import decimal
import ipaddress
import json
import re
import urllib.parse
import uuid

import jsonschema

CHECKER = jsonschema.FormatChecker(formats=())


def checks(*names):
    def enter(function):
        for name in names:
            CHECKER.checks(name, raises=Exception)(lambda v, f=function: not isinstance(v, str) or f(v) is not False)
        return function
    return enter


@checks("date")
def date(text):
    datetime.date.fromisoformat(text)
    return len(text) == 10


@checks("time")
def time(text):
    clock, offset = re.fullmatch(r"(.*?)(?:\.\d+)?(Z|[+-]\d\d:\d\d)", text).groups()
    datetime.time.fromisoformat(clock + (offset if offset != "Z" else "+00:00"))
    return re.match(r"\d\d:\d\d:\d\d", text) is not None


@checks("date-time")
def date_time(text):
    date(text[:10])
    return text[10] == "T" and time(text[11:])


@checks("duration")
def duration(text):
    whole = re.fullmatch(r"P(?:\d+W|(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?:\d+H)?(?:\d+M)?(?:\d+S)?)?)", text, re.ASCII)
    return whole is not None and text[-1] not in "PT"


@checks("uuid")
def uuid_(text):
    return str(uuid.UUID(text)) == text.lower()


@checks("ipv4")
def ipv4(text):
    ipaddress.IPv4Address(text)


@checks("ipv6")
def ipv6(text):
    ipaddress.IPv6Address(text)
    return "%" not in text


@checks("hostname", "idn-hostname")
def hostname(text):
    labels = text.split(".")
    return len(text) <= 253 and all(len(x) <= 63 and re.fullmatch("[a-zA-Z0-9-]+", x) and x[0] != "-" and x[-1] != "-"
                                    for x in labels)


@checks("email", "idn-email")
def email(text):
    local, host = text.rsplit("@", 1)
    dots = local.startswith(".") or local.endswith(".") or ".." in local
    return not dots and "." in host and hostname(host) and re.fullmatch(r"[^\s@\"(),:;<>\[\]\\]+", local) is not None


@checks("uri-reference", "iri-reference")
def reference(text):
    urllib.parse.urlsplit(text).port  # raises
    escapes = re.sub("%[0-9a-fA-F]{2}", "", text)
    return "%" not in escapes and text.count("#") <= 1 and re.fullmatch(r"[!-~]*", text) is not None and not re.search(
        r'[<>"{}|\\^`\[\]]', text)


@checks("uri", "iri")
def uri(text):
    return reference(text) and re.match("[a-zA-Z][a-zA-Z0-9+.-]*:.", text) is not None


@checks("json-pointer")
def json_pointer(text):
    return (text == "" or text[0] == "/") and not re.search("~(?![01])", text)


@checks("relative-json-pointer")
def relative(text):
    rest = re.fullmatch(r"(?:0|[1-9]\d*)(#|.*)", text, re.DOTALL | re.ASCII)
    return rest is not None and (rest.group(1) == "#" or json_pointer(rest.group(1)))


@checks("byte", "base64")
def base64_(text):
    return len(text) % 4 == 0 and re.fullmatch("[A-Za-z0-9+/]*={0,2}", text) is not None


@checks("e164")
def e164(text):
    return re.fullmatch(r"\+[1-9]\d{6,14}", text, re.ASCII) is not None


@CHECKER.checks("int32")
def int32(value):
    return not isinstance(value, int) or -2**31 <= value < 2**31


@CHECKER.checks("int64")
def int64(value):
    return not isinstance(value, int) or -2**63 <= value < 2**63


def standard(schema, draft4=True):
    """The keywords of OpenAPI 3.0 as those of JSON Schema: nullable, and exclusive bounds as flags."""
    if isinstance(schema, list):
        return [standard(x) for x in schema]
    if not isinstance(schema, dict):
        return schema
    out = {k: v if k in ("enum", "const", "default", "example") else standard(v) for k, v in schema.items()}
    if out.get("nullable") is True and isinstance(out.get("type"), str):
        out["type"] = [out["type"], "null"]
    for bound in ("Minimum", "Maximum"):
        if out.get("exclusive" + bound) is True:
            out["exclusive" + bound] = out.pop(bound.lower())
        elif out.get("exclusive" + bound) is False:
            del out["exclusive" + bound]
    return out


def validator(schema):
    schema = standard(json.loads(json.dumps(schema), parse_float=decimal.Decimal))
    draft7 = "draft-07" in schema.get("$schema", "")
    kind = jsonschema.Draft7Validator if draft7 else jsonschema.Draft202012Validator
    return kind(schema, format_checker=CHECKER)


def is_valid(schema, text):
    return validator(schema).is_valid(json.loads(text, parse_float=decimal.Decimal))
