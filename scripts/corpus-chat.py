#!/usr/bin/env python3
"""Writes a corpus of conversations: what the bundled model that answers is trained from scratch on.

    scripts/corpus-chat.py --lines 100000 --seed 1 > chat.jsonl

Four lines in five are {"messages": [...]}: somebody asks for a story (about whom, where, of what kind), asks about
it, has it continued, makes small talk, asks for small facts, or for what the model cannot know. The others are the
plain texts of corpus-stories.py. The same seed gives the same bytes.
"""
import argparse
import importlib.util
import json
import pathlib
import random
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import corpus_talk as talk  # noqa: E402  phrases and answers

spec = importlib.util.spec_from_file_location("stories", pathlib.Path(__file__).with_name("corpus-stories.py"))
stories = importlib.util.module_from_spec(spec)
spec.loader.exec_module(stories)
stories.ANIMALS.update(talk.HEROES)

PLOTS = {"lost": "mystery", "share": "kind", "stuck": "exciting", "wish": "happy", "fear": "scary"}
SYLLABLES = "ba be bi da do fa fi ga ka ki la lo lu ma mi mo na ne ni no pa po ra re ri ro sa si ta ti to va vi wa za zo".split()


def cap(text):
    return text[0].upper() + text[1:]


def invented_name(rng):
    """A name that no list has: the model is to copy what it reads."""
    return cap("".join(rng.sample(SYLLABLES, rng.randint(2, 3))) + rng.choice(["", "", "n", "r", "s", "l"]))


def spoken(rng, text):
    """As people type it."""
    if rng.random() < 0.15 and not text.lower().startswith(("hi", "hello", "please")):
        text = rng.choice(["Hi! ", "Hello, ", "Hey, ", "Please "]) + text[0].lower() + text[1:]
    if rng.random() < 0.12 and text[-1] in ".?!" and '"' not in text:
        text = text[:-1]
    if rng.random() < 0.12:
        text = text.lower()
    return text


class Tale:
    """A story that is told in a conversation, and what may be asked about it."""

    def __init__(self, rng, hero=None):
        self.rng = rng
        self.story = s = stories.Story(rng)
        if hero:
            s.hero.what = hero
            if hero in ("girl", "boy"):
                s.hero.he, s.hero.home = ("she" if hero == "girl" else "he"), "home"
            else:
                s.hero.home = "back to the " + stories.ANIMALS[hero]
            s.hero.him, s.hero.his = ("him", "his") if s.hero.he == "he" else ("her", "her")
            s.hero.name = rng.choice(stories.GIRLS if s.hero.he == "she" else stories.BOYS)
        if rng.random() < 0.3:
            s.hero.name = invented_name(rng)
        while s.friend.name == s.hero.name:
            s.friend = stories.Person(rng)
        self.plot = rng.choice(sorted(PLOTS))

    def tell(self):
        s = self.story
        s.lines = []
        s.opening()
        getattr(s, self.plot)()
        s.end()
        self.text = " ".join(s.lines)
        return self.text

    def who(self):
        h = self.story.hero
        return f"{h.article()} {h.adjective} {h.what}"

    def asked(self):
        """A request that the story fits."""
        rng, s = self.rng, self.story
        a_hero = stories.a(s.hero.what)
        named = f"{a_hero} {rng.choice(['named', 'called'])} {s.hero.name}"
        about = rng.choice([a_hero, a_hero, named, named, f"{a_hero} {s.at} {s.place}", f"{named} {s.at} {s.place}",
                            f"{a_hero} and {stories.a(s.friend.what)}", self.who()])
        if self.plot in ("lost", "wish") and rng.random() < 0.3:
            about = f"{a_hero} and {stories.a(s.thing)}"
        kind = rng.choice(["", "", "", "short ", "little ", "nice ", PLOTS[self.plot] + " "])
        return rng.choice(talk.ASK_STORY).format(about=about, kind=kind, a_kind=stories.a(kind + "story"))

    def found(self, pattern):
        m = re.search(pattern, self.text)
        return m.group(1) if m else None

    def questions(self):
        """Questions and answers that this telling settles."""
        s, h, f, text = self.story, self.story.hero, self.story.friend, self.text
        out = [
            ("Who is the story about?", f"It is about {h.name}, {self.who()}."),
            (f"What is the name of the {h.what}?", f"The {h.what} is called {h.name}."),
            (f"What is the {h.what} called?", f"The {h.what} is called {h.name}."),
            (f"Who is {h.name}?", f"{h.name} is {self.who()}."),
            (f"What kind of creature is {h.name}?", f"{h.name} is {stories.a(h.what)}."),
        ]
        if f"lived {s.at} {s.place}" in text or f"{s.at} {s.place}, there lived" in text:
            out.append((f"Where did {h.name} live?", f"{h.name} lived {s.at} {s.place}."))
            out.append((f"Where does the {h.what} live?", f"The {h.what} lives {s.at} {s.place}."))
        elif f"lived near {s.place}" in text:
            out.append((f"Where did {h.name} live?", f"{h.name} lived near {s.place}."))
        elif f"loved {s.place}" in text:
            out.append((f"What did {h.name} love?", f"{h.name} loved {s.place}."))
        if f.name in text:
            out += [(f"Who is {f.name}?", f"{f.name} is {f.article()} {f.adjective} {f.what}."),
                    (f"Who did {h.name} meet?", f"{h.name} met {f.name}, {f.article()} {f.adjective} {f.what}."),
                    (f"What is the name of {h.name}'s friend?", f"The friend is called {f.name}.")]
        out += getattr(self, "of_" + self.plot)(s, h, f)
        if (learned := self.found(r"learned that ([^.]+)\.")):
            out.append((f"What did {h.name} learn?", f"{h.name} learned that {learned}."))
            out.append(("What is the moral of the story?", f"The moral is that {learned}."))
        other = self.rng.choice(sorted(stories.ANIMALS))
        if other in text:
            out.append((f"Is there {stories.a(other)} in the story?", f"Yes, there is {stories.a(other)} in it."))
        else:
            out.append((f"Is there {stories.a(other)} in the story?", f"No, there is no {other} in this story."))
        return out

    def of_lost(self, s, h, f):
        out = [(f"What did {h.name} lose?", f"{h.name} lost {h.his} {s.thing}."),
               (f"Who helped {h.name}?", f"{f.name} helped {h.name}.")]
        where = self.found(r"looked ([^.,]+)[.,] (?:There was|and there it was)")
        if where:
            out.append((f"Where was the {s.thing}?", f"The {s.thing} was {where}."))
        return out

    def of_share(self, s, h, f):
        return [("Who was hungry?", f"{f.name} was hungry."), ("What did they eat?", f"They ate the {s.food}."),
                (f"What did {h.name} share?", f"{h.name} shared {h.his} {s.food} with {f.name}.")]

    def of_stuck(self, s, h, f):
        where = self.found(r"was stuck (.+?) and could")
        out = [("Who needed help?", f"{f.name} needed help."), (f"Who saved {f.name}?", f"{h.name} saved {f.name}.")]
        return out + ([(f"Where was {f.name} stuck?", f"{f.name} was stuck {where}.")] if where else [])

    def of_wish(self, s, h, _):
        return [(f"What did {h.name} want?", f"{h.name} wanted {stories.a(s.thing)}."),
                (f"What did {h.name} get at the end?", f"{h.name} got {stories.a(s.thing)}.")]

    def of_fear(self, _, h, f):
        fear = self.found(r"was afraid of ([^.]+)\.")
        return [(f"What was {h.name} afraid of?", f"{h.name} was afraid of {fear}."),
                (f"Who helped {h.name}?", f"{f.name} helped {h.name}.")]

    def next_day(self):
        s, h, f = self.story, self.story.hero, self.story.friend
        fields = dict(h=h.name, f=f.name, he=h.he, He=cap(h.he), his=h.his, him=h.him, place=s.place, other=s.other,
                      at=s.at, other_at=s.other_at, a_thing=stories.a(self.rng.choice(stories.THINGS)),
                      a_food=stories.a(self.rng.choice(stories.FOODS)), weather=self.rng.choice(stories.WEATHER),
                      spot=self.rng.choice(stories.SPOTS))
        return self.rng.choice(talk.NEXT_DAY).format(**fields)


class Conversation:
    def __init__(self, rng):
        self.rng, self.messages = rng, []

    def turn(self, question, answer):
        self.messages.append({"role": "user", "content": spoken(self.rng, question)})
        self.messages.append({"role": "assistant", "content": answer})

    def offered(self):
        """The model offers a story; yes or no follows."""
        hero = self.rng.choice(sorted(stories.ANIMALS))
        return hero, f"Shall I tell you a story about {stories.a(hero)}?"

    def answer_offer(self, hero):
        if self.rng.random() < 0.75:
            tale = Tale(self.rng, hero)
            self.turn(self.rng.choice(talk.YES), tale.tell())
            self.about(tale)
        else:
            self.turn(self.rng.choice(talk.NO), self.rng.choice(talk.ALL_RIGHT))

    def about(self, tale):
        rng = self.rng
        for question, answer in rng.sample(tale.questions(), rng.choice([0, 1, 2, 2, 3])):
            self.turn(question, answer)
        if rng.random() < 0.25 and tale.story.friend.name in tale.text:
            self.turn(rng.choice(talk.GO_ON), tale.next_day())
        if rng.random() < 0.2:
            self.small()

    def told(self):
        tale = Tale(self.rng, self.rng.choice(sorted(stories.ANIMALS) + ["girl", "boy"] * 4))
        request = tale.asked()
        self.turn(request, tale.tell())
        self.about(tale)

    def open_told(self):
        tale = Tale(self.rng, self.rng.choice(sorted(stories.ANIMALS)))
        self.turn(self.rng.choice(talk.ANY_STORY), tale.tell())
        self.about(tale)

    def continued(self):
        tale = Tale(self.rng)
        tale.tell()
        n = self.rng.randint(1, min(4, len(tale.story.lines) - 3))
        begin, rest = " ".join(tale.story.lines[:n]), " ".join(tale.story.lines[n:])
        self.turn(self.rng.choice(talk.CONTINUE).format(begin), rest)
        self.about(tale)

    def read(self):
        """The user tells a story and asks about it."""
        tale = Tale(self.rng)
        tale.tell()
        n = self.rng.randint(3, len(tale.story.lines))
        tale.text = " ".join(tale.story.lines[:n])
        known = [(q, a) for q, a in tale.questions() if q.startswith(("Who is", "What is the", "Where did", "Where does"))
                 and "moral" not in q]
        question, answer = self.rng.choice(known)
        self.turn(f"{tale.text} {question}", answer)

    def small(self):
        questions, answers = self.rng.choice(talk.SMALL)
        self.turn(self.rng.choice(questions), self.rng.choice(answers))

    def fact(self):
        question, answer = self.rng.choice(talk.FACTS)(self.rng)
        self.turn(question, answer)

    def unknown(self):
        rng = self.rng
        question = rng.choice(talk.UNKNOWN).format(rng.choice(talk.TOPICS))
        answer = rng.choice(talk.SORRY)
        if rng.random() < 0.5:
            hero, offer = self.offered()
            self.turn(question, answer + " " + offer)
            self.answer_offer(hero)
        else:
            self.turn(question, answer)

    def bored(self):
        hero, offer = self.offered()
        self.turn(self.rng.choice(talk.BORED), offer)
        self.answer_offer(hero)

    def persona(self):
        name = invented_name(self.rng) if self.rng.random() < 0.5 else self.rng.choice(stories.GIRLS + stories.BOYS)
        self.messages.append({"role": "system", "content": self.rng.choice(talk.PERSONA).format(name)})
        self.turn(self.rng.choice(talk.NAME), self.rng.choice(["My name is {}.", "I am {}.", "I am called {}."]).format(name))

    def my_name(self):
        """What the user has said is known later."""
        name = invented_name(self.rng) if self.rng.random() < 0.5 else self.rng.choice(stories.GIRLS + stories.BOYS)
        self.turn(self.rng.choice(talk.I_AM).format(name), self.rng.choice(talk.HELLO_NAME).format(name))
        if self.rng.random() < 0.4:
            self.rng.choice([self.small, self.fact])()
        if self.rng.random() < 0.7:
            self.turn(self.rng.choice(talk.WHO_AM_I), f"Your name is {name}.")

    def made(self):
        rng = self.rng
        kind = rng.randrange(3)
        if kind == 0:
            self.turn(rng.choice(talk.RHYME), rng.choice(talk.RHYMES).format(*rng.sample(sorted(stories.ANIMALS), 2)))
        elif kind == 1:
            self.turn(rng.choice(["Write a shopping list.", "Make a list of things to buy."]), stories.shopping(rng))
        else:
            self.turn(rng.choice(["Write a postcard.", "Write me a postcard from a journey."]), stories.postcard(rng))

    def make(self):
        rng = self.rng
        parts = [(self.told, 34), (self.open_told, 8), (self.continued, 9), (self.read, 9), (self.small, 14),
                 (self.fact, 9), (self.unknown, 6), (self.bored, 3), (self.persona, 2), (self.my_name, 4), (self.made, 2)]
        if rng.random() < 0.12:
            self.messages.append({"role": "system", "content": rng.choice(talk.SYSTEM)})
        if rng.random() < 0.15:
            self.turn(*map(rng.choice, talk.GREETING))
        first = rng.choices([p for p, _ in parts], [w for _, w in parts])[0]
        if self.messages and first == self.persona:
            first = self.told
        first()
        while len(self.messages) < 8 and rng.random() < (0.6 if first in (self.small, self.fact) else 0.2):
            rng.choice([self.small, self.fact, self.small, self.told])()
        return {"messages": self.messages}


def main():
    parser = argparse.ArgumentParser(description="Writes a corpus of conversations as lines of JSON.")
    parser.add_argument("--lines", type=int, default=100000, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: %(default)s")
    options = parser.parse_args()
    if options.lines < 1:
        parser.error(f"--lines {options.lines}: at least 1 expected")
    rng = random.Random(options.seed)
    for _ in range(options.lines):
        line = {"text": stories.text(rng)} if rng.random() < 0.2 else Conversation(rng).make()
        print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.stderr.close()
