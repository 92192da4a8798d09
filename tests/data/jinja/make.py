#!/usr/bin/env python3
"""Makes cases.jsonl beside this file: templates and what Jinja2 makes of them with the settings of transformers.

    python3 tests/data/jinja/make.py          writes cases.jsonl (needs Debian's python3-jinja2, 3.1)
    python3 tests/data/jinja/make.py --check  fails where it is not as this script writes it

One JSON object a line: {"template": TEXT, "text": TEXT}, or {"template": TEXT, "error": MESSAGE} where Jinja2 refuses.
"tern" is what Tern does instead: a text, or null where it refuses (DIFFERENT). All templates see VARIABLES, which is in
the first line.
"""
import json
import pathlib
import sys

import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

HERE = pathlib.Path(__file__).resolve().parent


class Generation(jinja2.ext.Extension):
    """transformers' {% generation %}: its body."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("text"), [], [], body).set_lineno(line)

    def text(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    return made


VARIABLES = {
    "a": 7, "b": -3, "f": 2.5, "t": True, "no": None, "s": "Hello, World", "e": "", "z": 0,
    "u": "caf\u00e9 \u2192 \u4f60\u597d", "lines": "one\ntwo\r\nthree\n\nfive", "html": "<b>\"x\" & 'y'</b>",
    "nums": [3, 1, 2, 2], "words": ["pear", "Apple", "fig", "apple"], "mixed": [1, "x", None, True, 2.5, [], {}],
    "pairs": [["x", 1], ["y", 2]],
    "people": [{"name": "Eve", "age": 30, "city": {"zip": "B"}}, {"name": "adam", "age": 25, "city": {"zip": "a"}},
               {"name": "Bob", "age": 30, "city": {"zip": "b"}}, {"name": "Zoe", "city": {}}],
    "d": {"b": 2, "a": 1, "C": 3}, "deep": {"items": [1], "get": 5, "x": {"y": [10, 20]}},
    "tree": [{"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}, {"v": 5, "kids": []}],
    "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"},
                 {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f",
                                                                                     "arguments": {"x": [1, 2]}}}]}],
}

# Each line of these is an expression, put between {{ and }}.
EXPRESSIONS = r"""
no | select | list
no | map('upper') | list
false | selectattr('x') | list
0 | rejectattr('x', 'none') | list
missing | select('odd') | list
no | map(attribute='x') | list
no | reject('equalto', 1) | list
'' | map('upper') | list
5 | select | list
[] | select('nosuch') | list
nums | select | list
nums | select('odd') | list
nums | reject('odd') | list
nums | select('divisibleby', 2) | list
nums | select('in', [1, 3]) | list
nums | reject('gt', 1) | list
nums | select('==', 2) | list
nums | select('nosuch') | list
nums | select(1) | list
mixed | select('string') | list
mixed | reject('none') | list
mixed | select('number') | list
mixed | select('boolean') | list
people | selectattr('age') | map(attribute='name') | list
people | selectattr('age', 'undefined') | map(attribute='name') | join
people | selectattr('age', 'equalto', 30) | map(attribute='name') | join(',')
people | rejectattr('age', 'defined') | map(attribute='name') | join(',')
people | selectattr('city.zip', 'equalto', 'B') | list | length
people | selectattr() | list
people | map(attribute='age') | list
people | map(attribute='age', default=0) | list
people | map(attribute='city.zip', default='-') | join
people | map(attribute='age', default=none) | list
people | map(attribute='age', other=1) | list
people | map() | list
words | map('upper') | list
words | map('replace', 'p', 'q') | list
words | map('replace', 'p', new='q') | list
words | map('truncate', 4, true, '.', leeway=0) | list
words | map('nosuch') | list
pairs | map('first') | list
pairs | map(attribute=0) | join
pairs | map(attribute='1') | join
pairs | map('join', '-') | list
nums | map('string') | map('length') | sum
nums | select | length
(nums | select) is defined
'yes' if ([] | select) else 'no'
(nums | map('abs') | first) ~ (nums | select | list | last)
nums | select | last
2 in (nums | select)
nums | map('abs') | tojson
nums | map('abs') is iterable
nums | map('abs') is sequence
d | dictsort
d | dictsort(true)
d | dictsort(false, 'value')
d | dictsort(by='value', reverse=true)
d | dictsort(reverse=true)
d | dictsort(case_sensitive=true, reverse=true)
d | dictsort(by='other')
{} | dictsort
{1: 'b', 0: 'a'} | dictsort
{1: 'b', 'x': 'a'} | dictsort
nums | dictsort
d | items | list
missing | items | list
nums | items | list
nums | sum
[0.5, 1] | sum
[] | sum
[] | sum(start=5)
nums | sum(start=10)
people[:3] | sum(attribute='age')
people[:3] | sum('age')
[[1], [2]] | sum(start=[])
words | sum
nums | min
nums | max
words | min
words | max
words | min(case_sensitive=true)
words | max(true)
people[:3] | min(attribute='age')
people[:3] | max(attribute='name')
[] | min
([] | max) is undefined
mixed | max
nums | sort
nums | sort(reverse=true)
words | sort
words | sort(case_sensitive=true)
words | sort(true)
people | sort(attribute='name') | map(attribute='name') | list
people[:3] | sort(attribute='age,name') | map(attribute='name') | list
people[:3] | sort(attribute='age', reverse=true) | map(attribute='name') | list
pairs | sort(attribute=1, reverse=true)
mixed | sort
words | unique | list
words | unique(case_sensitive=true) | list
nums | unique | list
people | unique(attribute='age') | map(attribute='name') | list
nums | reverse | list
nums | reverse | length
'abc' | reverse
d | reverse | list
nums | map('abs') | reverse
nums | batch(3) | list
nums | batch(3, 'x') | list
nums | batch(2) | map('sum') | list
nums | slice(3) | list
nums | slice(3, 0) | list
range(10) | slice(3) | map('list') | list
people[:3] | groupby('age') | map(attribute='grouper') | list
people[:3] | groupby('age') | map(attribute='list') | map('length') | list
words | groupby('0') | list
people | groupby('age', default=1) | map('first') | list
people[:3] | groupby('city.zip', case_sensitive=true) | map('first') | list
people[:3] | groupby('city.zip') | map('first') | list
'%s is %d' | format('x', 5)
'%(a)s-%(b)05d' | format(a='x', b=42)
'%s' | format
'%s %s' | format(1)
'%s' | format(1, 2)
'%s' | format(1, a=2)
'%d%%' % 5
'%s' % 'x'
'%s' % none
'%s and %s' % (1, [2, 'x'])
'%r' % 'it'
'%5d|%-5d|%05d|%+d|% d' % (42, 42, 42, 42, 42)
'%5s|%-5s|%.2s' % ('ab', 'ab', 'abc')
'%x %X %o %#x %#o' % (255, 255, 8, 255, 8)
'%f %.2f %8.3f %-8.1f| %e %E %g %G' % (1.5, 2.345, 3.14159, 2.25, 12345.678, 0.00012, 1e-7, 1e20)
'%i %u' % (3.9, true)
'%c%c' % ('x', 65)
'%*d|%-*d|%.*f' % (5, 42, 5, 42, 2, 3.14159)
'%(x)s' % {'x': 1}
'%s' % {'x': 1}
'%s' % [1, 2]
'%d' % 'x'
'%d' % none
'%q' % 1
'%' % ()
'100%' % ()
'%s' % ()
'x' % 5
'%.3d' % 5
'%010.3f' % -3.14159
'%s' % f
'%5s' % u[:2]
'{} {}'.format(1, 'x')
'{0}{1}{0}'.format('a', 'b')
'{a} {b!r}'.format(a=1, b='x')
'{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd')
'{:5}|{:05d}|{:+d}|{: d}|{:<5}|{:x}|{:#x}|{:b}|{:o}|{:,}|{:_}'.format(42, 42, 42, 42, 42, 255, 255, 5, 8, 1234567, 1234)
'{:.2f}|{:8.3f}|{:e}|{:g}|{:%}|{:.0%}'.format(3.14159, 2.5, 12345.678, 0.0001, 0.25, 0.5)
'{:.3}|{:10.2}|'.format('abcdef', 'xyz')
'{{}}{}'.format(1)
'{0.x}'.format({'x': 1})
'{0[x]}'.format({'x': 1})
'{0[1]}'.format([1, 2])
'{x[b]}'.format(x=d)
'{}'.format()
'{a}'.format(b=1)
'{'.format(1)
'}'.format(1)
'{!s:>4}'.format(none)
'{:5}'.format(none)
'{}'.format(none)
'{:d}'.format('x')
'{:5}'.format(true)
'{:c}'.format(65)
'{:,.2f}'.format(1234567.891)
'{:>+8.2f}'.format(2.5)
d | tojson
{'é': 'ü', 'n': none, 't': true, 1: 2.0} | tojson
{'é': '→😀\x7f'} | tojson(ensure_ascii=true)
d | tojson(sort_keys=true)
{'b': {'z': 1, 'a': 2}, 'a': [{'y': 1, 'x': 2}]} | tojson(sort_keys=true, indent=2)
d | tojson(indent=4)
d | tojson(indent=0)
d | tojson(indent='--')
d | tojson(none, 2)
d | tojson(separators=(',', ':'))
d | tojson(separators=[',', ': '], indent=1)
{'b': 1, 1: 2} | tojson(sort_keys=true)
[] | tojson(indent=2)
{'a': {}} | tojson(indent=2)
html | tojson
missing | tojson
(1, 2) | tojson
range(3) | tojson
d.items() | tojson
{'a': 1} | tojson(true)
'\u2028\ud83d' | length
'a"b\\c/\n\t\x01' | tojson
1e400 | tojson
1_000 + 1
1_0.5_0
0x1F + 0o17 + 0b101
0xff_ff
0B1
0X_1
1e3
1.5E-3
1e+2
2E1
00
1_
1__0
0x
9223372036854775807
12abc
u | sort(attribute='name')
people | sort(attribute='age') | list
5 | indent
nums | truncate(6)
missing | truncate
nums | truncate(1, leeway=0, end='')
2.5 is even
4.0 is even
3.0 is odd
2.5 is odd
7.5 is divisibleby(2.5)
'x' is even
words in d
{[1]: 2}
{(1, [2]): 2}
{(1, 2): 3}
[] in {}
'x' % missing
'x' % range(3)
'x' % [1]
tree | unique | list
nums | unique | list
.5
1.e
html | safe
html | escape
html | e
html | e | e
html | e | forceescape
html | safe | e
(html | safe) + '<i>'
'<i>' + (html | safe)
(html | safe) ~ '<i>'
'%s' | safe % '<i>'
('%s' | safe) % '<i>'
('{}' | safe).format('<i>')
('<' | safe) * 3
('<a>' | safe) is escaped
html is escaped
(html | e) is escaped
('a,b' | safe).split(',')
[('<a>' | safe), '<b>'] | join('&')
('&' | safe).join(['<', 'x'])
('<b>' | safe | upper) is escaped
('<b>' | safe | replace('b', '<')) ~ ''
('<b>' | safe).replace('b', '<')
('<b>' | safe | string) is escaped
('<b>' | safe | trim) is escaped
('<b>' | safe)[1:] is escaped
('<b>' | safe) == '<b>'
('x' | safe) in ['x']
'<' ~ ('&lt;' | safe)
('a' | safe | title) is escaped
('a\nb' | safe | indent) is escaped
[1, 2] | e
none | e
('<' | safe | length)
{'x': ('<' | safe)}
nums[::2]
nums[::-1]
nums[-2:]
nums[1:-1]
nums[-100:100]
nums[5]
nums[-1]
nums[100] is undefined
s[::-2]
s[-5:]
s[100] is undefined
u[3:6]
u[::-1]
nums[1:2:0]
nums['x'] is undefined
(1, 2, 3)[1:]
range(10)[2:5] | list
range(5)[-1]
range(3)
range(5) | length
range(2, 10, 3) | list
range(5, 0, -2) | list
range(0)
range('x')
range(1.5)
range(0, 5, 0)
3 in range(5)
range(3) == range(3)
range(3) is sequence
1 < 2 < 3
1 < 3 < 2
1 == 1.0 == true
3 > 2 >= 2 != 1
'a' < 'b'
'a' < 1
none < 1
[1, 2] < [1, 3]
[1] < [1, 0]
(1, 2) < (2,)
[1] < (1,)
{} < {}
1 in [1, 2] and 3 not in [1, 2]
'x' in 'xyz'
1 in 'x'
'b' in d
1 in none
'a' in missing
1 not in missing
'x' in d.values()
1 in d.values()
('a', 1) in d.items()
a is odd
a is even
a is divisibleby 7
a is divisibleby(2)
a is sameas 7
t is sameas true
1 is sameas true
nums is sameas nums
nums is sameas [3, 1, 2, 2]
a is eq 7
a is equalto 7
a is == 7
a is ne 7
a is lt 8
a is lessthan 8
a is le 7
a is gt 1
a is greaterthan 1
a is ge 7
a is in [7]
a is not in [7]
'upper' is filter
'nosuch' is filter
'odd' is test
'nosuch' is test
range is callable
'x'.upper is callable
d.items is callable
missing is callable
a is callable
'x' is iterable
none is iterable
5 is iterable
missing is iterable
d is mapping
nums is mapping
nums is sequence
d is sequence
'x' is sequence
5 is sequence
d.items() is sequence
d.keys() is iterable
'abc' is lower
'Abc' is lower
'123' is lower
'ABC' is upper
5 is upper
none is lower
t is boolean
t is integer
a is integer
f is float
f is number
t is number
'1' is number
t is true
a is true
z is false
not t is false
no is none
missing is none
missing is defined
missing.x is defined
d.x is undefined
d.x.y is undefined
a is string
a is nosuch
a is defined and b is defined
1 if false
(1 if false) is undefined
'x' ~ (1 if false) ~ 'y'
1 if a > 5 else 2 if b > 0 else 3
(1 if a else 2) + 1
'a' ~ 1 ~ none ~ true ~ 2.5 ~ [1]
'a' ~ missing
'a' + 1
'a' + missing
1 + missing
missing + missing
-missing
missing == missing2
missing == none
missing | length
missing | list
missing ~ 'x'
missing.foo
missing['foo']
missing()
missing | upper
missing | default('x')
missing | d
e | default('x', true)
e | default('x', boolean=true)
no | default('x')
z | d(5, true)
deep.items
deep['items']
deep.get('x')
deep['get']
deep.x.y[1]
deep.x['y'][0]
deep.items() | list | length
d.update
d.update is defined
d.update({'x': 1})
nums.append(1)
nums.append is defined
nums.sort()
d.pop('a')
d.get('q')
d.get('q', 5)
d.get('a')
d.get
d.keys()
d.values()
d.items()
d.items() | list
d.items()[0] is undefined
d.keys() | length
d.keys() | sort
d.copy()
d['keys'] is defined
d.fromkeys is defined
nums.copy()
nums.count(2)
nums.index(2)
nums.index(9)
nums.index(2, 3)
(1, 2, 1).count(1)
(1, 2).index(2)
s.lower()
s.upper()
s.swapcase()
s.title()
"they're bill's".title()
s.capitalize()
s.casefold()
s.center(20, '*')
s.center(19)
'ab'.center(5) ~ '|'
'abc'.center(6) ~ '|'
s.ljust(15, '.') ~ s.rjust(15) ~ '|'
'x'.ljust(3, 'ab')
s.count('l')
s.count('')
s.count('l', 4)
s.count('o', 0, 5)
s.find('o')
s.find('o', 5)
s.find('o', -4)
s.find('zz')
s.find('H', 1)
s.rfind('o')
s.rfind('o', 0, 5)
s.index('W')
s.index('zz')
s.rindex('l')
u.find('→')
u.rfind('好')
u.index('你', 3)
s.startswith('Hell')
s.startswith(('x', 'H'))
s.startswith('World', 7)
s.startswith(['x'])
s.endswith('ld')
s.endswith('Hello', 0, 5)
s.removeprefix('Hello')
s.removesuffix('World')
s.removeprefix('x')
s.partition(', ')
s.partition('x')
s.rpartition('o')
s.rpartition('x')
s.partition('')
s.replace('l', 'L')
s.replace('l', 'L', 2)
s.replace('', '-')
'ab'.replace('', '-', 2)
''.replace('', 'x')
s | replace('l', 'L', 1)
s | replace('l', 'L', count=2)
12 | replace(1, 5)
s.split()
s.split(', ')
s.split('l', 1)
s.split(maxsplit=1)
s.split(none, 1)
' a  b c '.split(none, 1)
' a  b c '.split()
''.split()
''.split(',')
s.split('')
s.rsplit('l', 1)
s.rsplit('l')
' a  b c '.rsplit(none, 1)
' a  b c '.rsplit()
'a,b,c'.rsplit(',', 2)
'a,b,c'.rsplit(',', 1)
lines.splitlines()
lines.splitlines(true)
lines.splitlines(keepends=true)
''.splitlines()
'a\x0bb\x1cc\u2028d'.splitlines()
' x '.strip() ~ '|'
'xxaxx'.strip('x')
'xyaxy'.lstrip('yx')
'abca'.rstrip('a')
'  a '.lstrip() ~ '|'
'→a→'.strip('→')
s.strip(none)
'5'.zfill(3)
'-5'.zfill(4)
'+5'.zfill(2)
'abc'.isalpha()
'abc1'.isalpha()
''.isalpha()
'abc1'.isalnum()
'123'.isdigit()
'12.3'.isdigit()
'123'.isdecimal()
u.isalpha()
'café'.isalpha()
'你好'.isalpha()
'你好'.isdigit()
'你好1'.isalnum()
'²'.isdigit()
'²'.isdecimal()
'٣'.isdecimal()
'½'.isnumeric()
'½'.isdigit()
'三'.isnumeric()
'三'.isdigit()
'é'.isalpha()
'123'.isnumeric()
' \t'.isspace()
''.isspace()
'abc'.islower()
'ABC'.isupper()
'a1'.isupper()
'abc'.isascii()
u.isascii()
','.join(words)
','.join(nums)
''.join([])
', '.join(d)
s.nosuch()
s.nosuch is undefined
s.nosuch
s.format_map is defined
(5).nosuch is undefined
s | length
u | length
d | length
nums | count
5 | length
none | length
s | first
s | last
[] | first
[] | last
([] | first) is undefined
d | first
d | last
5 | first
nums | join
nums | join(', ')
words | join(d='-')
people | join(', ', attribute='name')
none | join
missing | join
[1, none, 'x'] | join('|')
'abc' | join('-')
s | list
d | list
none | list
5 | list
s | upper
s | lower
'hELLO wORLD' | capitalize
"foo-bar (baz) it's" | title
' x ' | trim ~ '|'
'xax' | trim('x')
'xax' | trim(chars='x')
5 | trim
none | trim
5 | string
[1, 'a'] | string
none | string
missing | string
'x' | center(5) ~ '|'
'x' | center ~ '|'
'a\nb\n\nc' | indent
'a\nb\n\nc' | indent(2, true)
'a\nb\n\nc' | indent(2, blank=true)
'a\nb' | indent('> ')
'a\nb' | indent('> ', first=true)
'a\nb\n' | indent ~ '|'
'' | indent(2, true) ~ '|'
'a\nb' | indent(0)
'a\nb' | indent(width=-1)
lines | indent(1)
'foo bar baz qux' | truncate(9)
'foo bar baz qux' | truncate(9, true)
'foo bar baz qux' | truncate(11)
'foo bar baz qux' | truncate(11, false, '...', 0)
'foo bar baz qux' | truncate(9, end='!')
'foobarbazqux' | truncate(5, leeway=0)
'foo' | truncate(2)
'one two  three_4' | wordcount
5 | abs
-2.5 | abs
'x' | abs
'42' | int
'42.9' | int
'x' | int
'x' | int(7)
'ff' | int(base=16)
'0xff' | int(0, 16)
'0b101' | int(base=2)
'0o17' | int(0, 8)
'0x1f' | int(base=0)
'z' | int(base=36)
'12' | int(base=3)
'19' | int(default=5, base=8)
' 7 ' | int
'-7' | int
'1_000' | int
none | int
none | int(3)
true | int
2.9 | int
-2.9 | int
[] | int
'1e3' | int
'2.5' | float
'x' | float
'x' | float(1.5)
'1e3' | float
none | float
7 | float
2.5 | round
3.5 | round
2.567 | round(2)
2.567 | round(1, 'ceil')
2.567 | round(1, 'floor')
-2.5 | round
42 | round
42.5 | round | int
2.1 | round(method='ceil')
2.1 | round(method='other')
1234 | round(-2)
7 // 2
-7 // 2
7 % 3
-7 % 3
7 % -3
7.5 % 2
7 / 2
6 / 3
1 / 0
1 // 0
1 % 0
2 ** 10
2 ** -1
2 ** 0.5
-2 ** 2
(-2) ** 2
2 ** 3 ** 2
1 + 2 * 3 - 4 / 2
'ab' * 3
3 * 'ab'
'ab' * 0
'ab' * -1
[1] * 3
2 * [1, 2]
(1,) * 2
[1] + [2]
(1,) + (2,)
[1] + (2,)
{} + {}
'a' * 1.5
true + true
+true
-true
not none
not []
a and b
z or 'x'
none and 1
1 and 2 or 3
not a or b
1.0
1e16
1e15
123456789012345680.0
0.1 + 0.2
1e-5
0.0001
100.0
-0.0
1.0 == 1
'1' == 1
[1, [2]] == [1, [2.0]]
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
(1, 2) == [1, 2]
none == false
(1,)
()
[]
{}
[1, 'a', "it's", 'say "x"', 'it\'s "x"']
{'a': [1, (2,)], 1: none}
['a\nb\t\\', 'é→', '\x00\x7f']
'a' 'b' "c"
'\x41\u00e9\101\q\''
true
True
false
none
None
dict(a=1, b=2)
dict({'x': 1}, y=2)
dict([('a', 1), ['b', 2]])
dict(1)
dict(pairs)
namespace(a=1).a
namespace({'x': 5}).x
namespace(a=1).b is undefined
namespace(a=1)
namespace(a=1)['a']
joiner()
joiner('|')() ~ 'x'
cycler('a', 'b').next()
cycler('a', 'b').current
cycler()
cycler(1, 2, 3) is callable
d | attr('items') is callable
d | attr('a') is undefined
namespace(q=3) | attr('q')
words | nosuch
words | upper(1)
words | join(',', 'name', 3)
words | join(nosuch=1)
'x' | default('y', true, 3)
[1, 2, 3] | first + 1
-5 | abs
- 5 | abs
'a' ~ 'b' | upper
'a' + 'b' | upper
1 + 2 | string
not a == 7
a if a
loop is defined
caller is defined
messages[2].tool_calls[0].function.arguments | tojson
messages | map(attribute='role') | unique | list
messages | selectattr('tool_calls', 'defined') | list | length
messages[-1].content is none
messages[-1]['content'] or 'nothing'
(messages | first).role
messages[1:] | map(attribute='content') | list
d.a + d['b'] * d.get('C')
raise_exception('no')
raise_exception()
people | map(attribute='name') | map('lower') | sort | join(' ')
['%s=%s' % (k, v) for k in d]
[x for x in nums]
nums | sort | first if nums else none
{'a': 1}.a
{'a': 1}['a']
[1, 2][0]
'abc'[1]
(1, 2).0
nums.0
d.0 is undefined
'abc'.upper().lower().title()
'%s' % ('a', )
lipsum is defined
x.y if x is defined else 'z'
range(3) | map('string') | join
[[1, 2], [3]] | map('length') | list
[1, 2, 3] | sum / 2
{'a': 1, **d}
[*nums]
a == 7 == t
'\N{BULLET}'
'a\
b'
"""

# Whole templates.
TEMPLATES = [
    "{% macro box() %}[{{ caller() }}]{% endmacro %}{% call box() %}in{% endcall %}",
    "{% macro box(x) %}[{{ caller(x, 2) }}]{% endmacro %}{% call(p, q=9) box(1) %}{{ p }}-{{ q }}{% endcall %}",
    "{% macro box() %}{{ caller is defined }}{{ caller }}{% endmacro %}{{ box() }}",
    "{% macro box() %}x{% endmacro %}{% call box() %}in{% endcall %}",
    "{% macro box() %}{{ caller() }}{% endmacro %}{{ box() }}",
    "{% macro o() %}<{{ caller() }}>{% endmacro %}{% call o() %}a{% call o() %}b{% endcall %}{% endcall %}",
    "{% set x = 1 %}{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{{ x }}{% endcall %}",
    "{% call range(3) %}x{% endcall %}",
    "{% call 5 %}x{% endcall %}",
    "{% macro m(a, b=2, *args) %}x{% endmacro %}",
    "{% macro m(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1) }}{{ m(1, 3, 4, 5, c=6) }}",
    "{% macro m() %}{{ varargs | join(',') }}{% endmacro %}{{ m(1, 2, 3) }}{{ m() }}",
    "{% macro m() %}{{ kwargs | dictsort }}{% endmacro %}{{ m(b=1, a=2) }}{{ m() }}",
    "{% macro m() %}x{% endmacro %}{{ m(1) }}",
    "{% macro m() %}x{% endmacro %}{{ m(a=1) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3) }}",
    "{% macro m(a, b=2) %}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.catch_varargs }}{{ m.catch_kwargs }}"
    "{{ m.caller }}",
    "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'b': 1, 'a': 2}) }}{{ m(1, *[2]) }}",
    "{% macro m(a, b, c) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(*[1], b=2, **{'c': 3}) }}{{ m(b=1, *[2], c=3) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(*[1, 2]) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(**{'b': 2}) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(a=1, **{'a': 2}) }}",
    "{{ dict(**d) }}{{ dict(*[{'x': 1}]) }}{{ range(*[1, 4]) | list }}",
    "{{ 'abc'.replace(*['a', 'b']) }}{{ nums | join(*['-']) }}{{ 1 is divisibleby(*[1]) }}",
    "{{ range(*5) }}",
    "{{ dict(**5) }}",
    "{% filter upper %}abc{{ 1 }}{% endfilter %}",
    "{% filter upper | replace('B', 'x') | trim %} abc {% endfilter %}",
    "{% filter indent(2) %}a\nb{% endfilter %}",
    "{% set x = 1 %}{% filter upper %}{% set x = 2 %}{{ x }}{% endfilter %}{{ x }}",
    "{% filter nosuch %}a{% endfilter %}",
    "{% if false %}{% filter nosuch %}a{% endfilter %}{% endif %}ok",
    "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x }}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% with q = 1, r = q %}{{ q }}{{ r }}{% endwith %}",
    "{% set x = 1 %}{% with y = x %}{% set x = 2 %}{{ x }}{{ y }}{% endwith %}{{ x }}",
    "{% with (q, r) = (1, 2) %}{{ q }}{{ r }}{% endwith %}",
    "{% with a %}{% endwith %}",
    "{% set j = joiner(', ') %}{% for w in words %}{{ j() }}{{ w }}{% endfor %}",
    "{% set j = joiner() %}{{ j() }}a{{ j() }}b{{ j() }}c",
    "{% set j = joiner() %}{{ j(1) }}",
    "{% set c = cycler('odd', 'even') %}{% for n in nums %}{{ c.next() }}{{ c.current }} {% endfor %}"
    "{{ c.reset() }}{{ c.next() }}",
    "{% for n in nums %}{{ loop.cycle('a', 'b', 'c') }}{% endfor %}",
    "{% for n in nums %}{{ loop.changed(n) }} {% endfor %}",
    "{% for n in nums %}{% if loop.changed(n, 1) %}{{ n }}{% endif %}{% endfor %}",
    "{% for n in nums %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}"
    "{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}",
    "{% for n in nums %}{{ loop | length }}{{ loop.nosuch is defined }}{% endfor %}",
    "{% for t in tree recursive %}{{ loop.depth }}:{{ t.v }}{% if t.kids %}({{ loop(t.kids) }}){% endif %}{% endfor %}",
    "{% for t in tree recursive %}{{ t.v }}{{ loop(t.kids) }}{% else %}.{% endfor %}",
    "{% for t in tree if t.v > 0 recursive %}{{ t.v }}{{ loop(t.kids) }}{% endfor %}",
    "{% for t in tree %}{{ loop(t.kids) }}{% endfor %}",
    "{% for t in tree recursive %}{{ t.v }}{% for k in t.kids %}{{ loop.depth }}{% endfor %}{% endfor %}",
    "{% for x in nums if x > 1 %}{{ loop.index }}{{ x }}{% else %}none{% endfor %}",
    "{% for x in [] %}a{% else %}b{% endfor %}{% for x in no %}a{% endfor %}",
    "{% for x in missing %}a{% else %}b{% endfor %}",
    "{% for x in 5 %}a{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}{{ v }}{% endfor %}{% for k in d %}{{ k }}{% endfor %}",
    "{% for k, (x, y) in [(1, (2, 3))] %}{{ k }}{{ x }}{{ y }}{% endfor %}",
    "{% for a, b in [1] %}{% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}{% endfor %}",
    "{% for x in nums | select %}{{ loop.length }}{{ loop.last }}{{ x }}{% endfor %}",
    "{% set g = nums | select %}{{ g | list }}{{ g | list }}",
    "{% set g = nums | map('abs') %}{{ g | first }}{{ g | list }}",
    "{% for x in range(3) %}{% for y in range(2) %}{{ loop.index }}{% if y == 1 %}{% break %}{% endif %}{% endfor %}"
    "{% continue %}x{% endfor %}",
    "{% set x %}a{{ 1 }}b{% endset %}{{ x | length }}{{ x is escaped }}",
    "{% set x | upper | replace('A', 'x') %}abc{% endset %}{{ x }}",
    "{% set x, y = 1, 2 %}{{ x }}{{ y }}",
    "{% set x = 1, 2 %}{{ x }}",
    "{% set ns = namespace(x=0, y=[]) %}{% for n in nums %}{% set ns.x = ns.x + n %}{% set ns.y = ns.y + [n] %}"
    "{% endfor %}{{ ns.x }}{{ ns.y }}",
    "{% set d.x = 1 %}",
    "{% set x = 1 %}{% for i in [1] %}{{ x }}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% macro m() %}{% set x = 5 %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}{{ x }}",
    "{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}",
    "{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% generation %}a{{ 1 }}{% endgeneration %}b",
    "{% raw %}{{ x }}{% endraw %}",
    "{%- raw -%} {{ x }} {%- endraw -%} y",
    "{# {{ x }} #}a{#- b -#} c",
    "a {%- if true -%} b {%- endif -%} c",
    "  {%+ if true %} b {% endif +%}\n c",
    "a\n  {% if true %}\n  b\n  {% endif %}\nc\n",
    "{% if false %}{{ 1 | nosuch }}{% endif %}ok",
    "{% if true %}{{ 1 | nosuch }}{% endif %}",
    "{{ 1 | nosuch if false else 2 }}",
    "{{ 2 if true else 1 | nosuch }}",
    "{% if false %}{{ 1 is nosuch }}{% endif %}ok",
    "{% if false and 1 is nosuch %}{% endif %}ok",
    "{{ 1 | nosuch }}",
    "{{ 1 is nosuch }}",
    "{% if false %}a{% elif false %}{{ 1 | nosuch }}{% else %}c{% endif %}",
    "{% if false %}{{ nosuch(1) }}{% endif %}ok",
    "{% if false %}{{ s.nosuch(1) }}{% endif %}ok",
    "{% if false %}{% include 'x' %}{% endif %}",
    "{% extends 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% do 1 %}", "{% trans %}x{% endtrans %}",
    "{% print 1 %}{% print 'a' ~ 2, 3 %}",
    "{% if a %}x", "{{ a", "{% nosuch %}", "{% endif %}", "{% else %}", "{{ }}", "{{ 1 2 }}", "{{ a. }}", "{{ a[ }}",
    "{% break %}", "{{ a b }}", "{% set %}", "{% for %}", "{% for x nums %}{% endfor %}", "{% macro %}{% endmacro %}",
    "{{ f(a=1, 2) }}", "{{ f(**d, 1) }}", "{{ f(*nums, *nums) }}", "{{ f(*nums, 1) }}", "{{ 'x }}", "{# x",
    "{% raw %}x", "{{ {1: 2, 3} }}", "{{ (1, 2 }}", "{{ 1 | }}", "{{ 1 is }}", "{{ not }}", "{{ 1 + }}",
    "{% for m in messages %}<|{{ m.role }}|>{% if m.content %}{{ m.content }}{% endif %}"
    "{% for c in m.tool_calls or [] %}{{ c.function.name }}({{ c.function.arguments | tojson }}){% endfor %}\n{% endfor %}",
    "{%- macro render(v) -%}{%- if v is mapping -%}{ {%- for k, x in v | dictsort -%}{{ k }}: {{ render(x) }}"
    "{%- if not loop.last %}, {% endif -%}{%- endfor -%} }{%- elif v is string -%}\"{{ v }}\"{%- elif v is iterable -%}"
    "[{%- for x in v -%}{{ render(x) }}{{ ',' if not loop.last }}{%- endfor -%}]{%- else -%}{{ v }}{%- endif -%}"
    "{%- endmacro -%}{{ render(people) }}{{ render(deep.x) }}",
    "{% set found = namespace(x=false) %}{% for m in messages | reverse %}{% if not found.x and m.role == 'user' %}"
    "{% set found.x = true %}{{ loop.index0 }}{% endif %}{% endfor %}",
    "{{ '<|' + 'x' ~ '|>' }}{{ \"a\\\"b\" }}{{ 'it\\'s' }}",
    "{{ x }}{% set x = 3 %}{{ x }}{{ x.y }}",
    "{{ [1, 2] | map('float') | map('round', 1) | list }}",
]


# Where Tern departs from Jinja2: its text, or None where it refuses.
DIFFERENT = {
    "{{ lipsum is defined }}": "False",
    "{{ '\\N{BULLET}' }}": None,
    "{% if false %}{% include 'x' %}{% endif %}": None,
    # Jinja2 forgives unknown filters in a branch, but not in another block inside it.
    "{% if false %}{% filter nosuch %}a{% endfilter %}{% endif %}ok": "ok",
}


def answer(made, source):
    case = {"template": source}
    try:
        case["text"] = made.from_string(source).render(**VARIABLES)
    except Exception as error:  # whatever a template makes Python raise
        case["error"] = f"{type(error).__name__}: {error}"
    if source in DIFFERENT:
        case["tern"] = DIFFERENT[source]
    return case


def cases():
    expressions = [line for line in EXPRESSIONS.strip("\n").split("\n")]
    made = environment()
    return [answer(made, source) for source in ["{{ " + e + " }}" for e in expressions] + TEMPLATES]


def plain(case):
    """Texts that change from run to run, such as addresses, tell nothing."""
    return " at 0x" not in case.get("text", "")


def lines():
    return [json.dumps({"variables": VARIABLES})] + [json.dumps(case) for case in cases() if plain(case)]


def main():
    path, text = HERE / "cases.jsonl", "\n".join(lines()) + "\n"
    if sys.argv[1:] != ["--check"]:
        path.write_text(text)
    elif path.read_text() != text:
        sys.exit(f"{path} is not as {__file__} writes it")


main()
