"""Modules of Tern's own for tests of what opens them."""
import re


def other_mark(module, copy):
    """A copy of a module with another mark, as of another build; both marks."""
    with open(module, "rb") as file:
        data = file.read()
    found = set(re.findall(rb"\0(\d+\.\d+\.\d+-[0-9a-f]{12})\0", data))
    assert len(found) == 1, found
    mark = found.pop()
    other = mark[:-12] + bytes(reversed(mark[-12:]))
    assert other != mark
    with open(copy, "wb") as file:
        file.write(data.replace(mark, other))
    return mark.decode(), other.decode()
