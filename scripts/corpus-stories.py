#!/usr/bin/env python3
"""Writes a corpus of simple stories: what the bundled model is trained from scratch on.

    scripts/corpus-stories.py --stories 60000 --seed 1 > stories.jsonl

Each line is {"text": "..."}. A story has somebody, a wish or a mishap, two or three tries and an end; names, things and
places stay the same all through it, so that there is something to remember. One text in six is a postcard, a list or a
rhyme of made-up words, so that numbers, dates and every letter are met as well. The same seed gives the same bytes.
"""
import argparse
import json
import random
import sys

GIRLS = "Mia Lily Anna Rosa Nora Ella Ida Clara Emma Lucy Sara Tess June Maya".split()
BOYS = "Tom Ben Max Leo Sam Finn Jack Otto Noah Paul Tim Hugo Carl Theo".split()
ANIMALS = {"fox": "den", "rabbit": "burrow", "bear": "cave", "mouse": "hole", "owl": "tree", "frog": "pond",
           "duck": "nest", "hedgehog": "bed of leaves", "squirrel": "oak", "cat": "basket", "dog": "kennel",
           "goat": "stable", "turtle": "garden", "crow": "roof"}
ADJECTIVES = "little small young clever brave shy kind curious sleepy quiet merry gentle".split()
KIN = [("mother", "she"), ("father", "he"), ("grandmother", "she"), ("grandfather", "he"), ("aunt", "she"),
       ("uncle", "he")]
THINGS = ["red ball", "blue kite", "wooden boat", "silver bell", "yellow scarf", "green hat", "small drum",
          "paper lantern", "round stone", "brass key", "old map", "long rope", "shiny shell", "woolen mitten",
          "toy train", "painted egg", "feather", "picture book", "tin whistle", "glass marble"]
FOODS = ["apple", "pear", "plum cake", "slice of bread", "bowl of soup", "honey roll", "carrot", "jar of jam",
         "handful of nuts", "piece of cheese", "pancake", "berry pie"]
PLACES = [("the forest", "in"), ("the garden", "in"), ("the meadow", "in"), ("the beach", "on"), ("the hill", "on"),
          ("the river", "by"), ("the lake", "by"), ("the village", "in"), ("the market", "at"), ("the old mill", "at"),
          ("the bridge", "by"), ("the barn", "in"), ("the park", "in"), ("the harbor", "at")]
SPOTS = ["under a bench", "behind a big rock", "in the tall grass", "under the leaves", "on a high branch",
         "in a hollow log", "between two stones", "in the mud", "inside an old box", "behind the door",
         "at the bottom of a well", "in a bird's nest"]
WEATHER = ["The sun was warm.", "It was a windy day.", "Snow lay on the ground.", "It had rained all night.",
           "The sky was blue.", "Fog hung over the fields.", "The leaves were turning red.", "The air smelled of spring.",
           "It was a hot afternoon.", "A cool wind blew."]
TIMES = ["One morning", "One day", "One evening", "One summer day", "On a cold day", "The next day", "One Sunday",
         "After breakfast", "After lunch"]
HAPPY = ["happy", "glad", "proud", "full of joy", "very pleased"]
SAD = ["sad", "worried", "upset", "close to tears", "very unhappy"]
LESSONS = ["From that day on, {who} always {habit}.", "{Who} never forgot that day.",
           "And {who} learned that {moral}.", "That night {who} slept well and dreamed of {place}.",
           "And they stayed friends for a long, long time."]
MORALS = [("asked for help", "it is good to ask for help"), ("shared with others", "sharing makes everyone glad"),
          ("told the truth", "the truth is always best"), ("looked twice", "it is wise to look twice"),
          ("was kind to strangers", "a kind word costs nothing"), ("tried again", "one must try again"),
          ("listened first", "it helps to listen"), ("kept every promise", "a promise must be kept")]


class Person:
    """Somebody of a story: a name, how he or she is called, and the pronouns."""

    def __init__(self, rng):
        kind = rng.random()
        if kind < 0.3:
            self.name, self.he, self.home = rng.choice(GIRLS), "she", "home"
            self.what = "girl"
        elif kind < 0.6:
            self.name, self.he, self.home = rng.choice(BOYS), "he", "home"
            self.what = "boy"
        else:
            self.what = rng.choice(sorted(ANIMALS))
            self.he = rng.choice(["he", "she"])
            self.name = rng.choice(GIRLS if self.he == "she" else BOYS)
            self.home = "back to the " + ANIMALS[self.what]
        self.him, self.his = ("him", "his") if self.he == "he" else ("her", "her")
        self.adjective = rng.choice(ADJECTIVES)

    def article(self):
        return "an" if (self.adjective[0] in "aeiou") else "a"


def cap(text):
    return text[0].upper() + text[1:]


def a(noun):
    if noun.startswith(("handful", "slice")):
        return "a " + noun
    return ("an " if noun[0] in "aeiou" else "a ") + noun


class Story:
    def __init__(self, rng):
        self.rng = rng
        self.hero = Person(rng)
        self.friend = Person(rng)
        while self.friend.name == self.hero.name:
            self.friend = Person(rng)
        self.thing = rng.choice(THINGS)
        self.food = rng.choice(FOODS)
        (self.place, self.at), (self.other, self.other_at) = rng.sample(PLACES, 2)
        self.habit, self.moral = rng.choice(MORALS)
        self.lines = []

    def say(self, *choices):
        h, f = self.hero, self.friend
        text = self.rng.choice(choices).format(
            h=h.name, he=h.he, him=h.him, his=h.his, He=cap(h.he), His=cap(h.his), home=h.home, f=f.name, fhe=f.he,
            fhim=f.him, fhis=f.his, Fhe=cap(f.he), thing=self.thing, a_thing=a(self.thing), food=self.food,
            a_food=a(self.food), place=self.place, Place=cap(self.place), at=self.at, other=self.other,
            other_at=self.other_at, spot=self.rng.choice(SPOTS), happy=self.rng.choice(HAPPY),
            sad=self.rng.choice(SAD), time=self.rng.choice(TIMES), fwhat=f.what, fadj=f.adjective, fa=f.article())
        self.lines.append(text)

    def opening(self):
        h = self.hero
        where = self.rng.choice([f"who lived {self.at} {self.place}", f"who lived near {self.place}",
                                 f"who loved {self.place}"])
        self.lines.append(self.rng.choice([
            f"Once upon a time there was {h.article()} {h.adjective} {h.what} named {h.name}, {where}.",
            f"Once upon a time, {self.at} {self.place}, there lived {h.article()} {h.adjective} {h.what} named {h.name}.",
            f"There once was {h.article()} {h.adjective} {h.what} {where}. {cap(h.his)} name was {h.name}.",
            f"{h.name} was {h.article()} {h.adjective} {h.what} {where}."]))
        if self.rng.random() < 0.5:
            self.lines.append(self.rng.choice(WEATHER))

    def meet(self):
        self.say("There {he} met {f}, {fa} {fadj} {fwhat}.", "Then {fa} {fadj} {fwhat} came along. {Fhe} was called {f}.",
                 "On the way {he} met {fa} {fadj} {fwhat} named {f}.")

    def end(self):
        pattern = self.rng.choice(LESSONS)
        self.lines.append(pattern.format(who=self.hero.name, Who=self.hero.name, habit=self.habit, moral=self.moral,
                                         place=self.place))
        if self.rng.random() < 0.25:
            self.lines.append("The end.")

    def lost(self):
        self.say("{h} had {a_thing}, and {he} took it everywhere.", "{h} liked nothing more than {his} {thing}.")
        self.say("{time} the {thing} was gone.", "{time} {h} could not find the {thing}.")
        self.say('"Where is my {thing}?" {he} cried. {He} was {sad}.', "{h} was {sad}.")
        self.say("{He} looked {spot}, but it was not there.", "{h} looked {spot} and found nothing.")
        self.meet()
        self.say('"I have lost my {thing}," said {h}. "I will help you," said {f}.',
                 '"Why are you so {sad}?" asked {f}. "My {thing} is gone," said {h}.')
        self.say("They went to {other} together.", "So they walked to {other}.")
        self.say("They looked {spot}. There was the {thing}!", "{f} looked {spot}, and there it was!")
        self.say('"Thank you, {f}!" said {h}. {He} was {happy}.', "{h} hugged {f} and was {happy}.")
        self.say("Then they played with the {thing} until it was dark.", "{h} carried the {thing} {home}.")

    def share(self):
        self.say("{time} {h} had {a_food} for lunch.", "{time} {h} went to {other} with {a_food}.")
        self.meet()
        self.say('"I am so hungry," said {f}.', "{f} had nothing to eat and was {sad}.")
        self.say("{h} looked at the {food}. {He} was hungry too.", "At first {h} wanted to keep the {food}.")
        self.say('"We can share it," said {h}.', "Then {h} broke the {food} in two and gave {f} the bigger part.")
        self.say("They sat down {at} {place} and ate.", "They ate it all and told each other stories.")
        self.say("The next day {f} came back with {a_thing}. \"This is for you,\" {fhe} said.",
                 "{f} was {happy} and gave {h} {a_thing}.")
        self.say("{h} was {happy}.", '"Thank you," said {h}, and {he} smiled.')

    def stuck(self):
        self.say("{time} {h} went to {other} to play.", "{time} {he} walked to {other}.")
        self.say("Suddenly {he} heard somebody call for help.", '"Help! Help!" called a voice.')
        self.lines.append(f"It was {self.friend.article()} {self.friend.adjective} {self.friend.what} named "
                          f"{self.friend.name}.")
        self.say("{f} was stuck {spot} and could not get out.", "{f} had fallen and hurt {fhis} leg.")
        self.say("{h} pulled and pulled, but {he} was not strong enough.", "{h} tried once, and it did not work.")
        self.say("Then {he} had an idea. {He} ran {home} and came back with {a_thing}.",
                 "{h} thought for a while. Then {he} used {his} {thing}.")
        self.say("They tried again, and this time it worked!", "One, two, three, and {f} was free!")
        self.say('"You saved me!" said {f}.', '"Thank you," said {f}. "You are a true friend."')
        self.say("{h} was {happy}.", "They walked {home} together.")

    def wish(self):
        kin, he = self.rng.choice(KIN)
        self.say("{h} wanted {a_thing} more than anything.", "For a long time {h} had wished for {a_thing}.")
        self.lines.append(self.rng.choice([f'{cap(self.hero.his)} {kin} said, "You must wait for it."',
                                           f'"It costs too much," said {self.hero.his} {kin}.']))
        self.say("So {h} went to {other} to work.", "{time} {he} went to {other} and looked for work.")
        self.say("{He} carried water and swept the floor.", "{He} helped to pick berries all day.",
                 "{He} fed the hens and washed the windows.")
        self.meet()
        self.say('{f} needed help with a heavy basket. "I will carry it," said {h}.',
                 "{f} had lost {fhis} way, and {h} showed {fhim} the road.")
        self.say("When the day was over, {h} was tired but {happy}.", "In the evening {he} counted the coins.")
        self.lines.append(self.rng.choice([f"At home {self.hero.his} {kin} had a surprise. It was {a(self.thing)}!",
                                           f"Then {self.hero.his} {kin} opened a box, and in it was {a(self.thing)}."]))
        self.say("{h} was {happy}.", '"It is the best {thing} in the world!" said {h}.')

    def fear(self):
        fear, why = self.rng.choice([("the dark", "a small light"), ("the water", "a calm place"),
                                     ("thunder", "a song"), ("high places", "a hand to hold")])
        self.lines.append(f"{self.hero.name} was afraid of {fear}.")
        self.say("The others laughed, and {he} was {sad}.", "{He} told nobody about it.")
        self.meet()
        self.lines.append(f'"I was afraid of {fear} too," said {self.friend.name}. "What helped me was {why}."')
        self.say("They went to {other} and tried it.", "So they tried it together {other_at} {other}.")
        self.say("At first {h} shook all over.", "{h} closed {his} eyes and counted to ten.")
        self.say("Step by step it became easier.", "{f} stayed close to {him} all the time.")
        self.lines.append(f"In the end {self.hero.name} was not afraid of {fear} any more.")
        self.say("{He} was {happy} and gave {f} {a_food}.", '"We did it!" they shouted.')

    def text(self):
        self.opening()
        self.rng.choice([self.lost, self.share, self.stuck, self.wish, self.fear])()
        self.end()
        return " ".join(self.lines)


MONTHS = ("January February March April May June July August September October November December").split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
STARTS = "b bl br c ch cl cr d dr f fl fr g gl gr h j k kl l m n p pl pr qu r s sc sh sk sl sn sp st str t th tr tw v w x y z".split()
VOWELS = "a e i o u ai ea ee ie oa oo ou".split()
ENDS = "b ck d ft g ght l ll lm m mp n nd ng nk nt p pt r rd rk rm rn s sh ss st t th tch v x zz".split()
UNITS = ["pounds of flour", "eggs", "apples", "candles", "yards of cloth", "sheets of paper", "pots of paint", "nails",
         "bottles of milk", "loaves of bread", "lemons", "needles", "feet of string", "boxes of matches"]
VIEWS = ["the mountains", "the old castle", "a small island", "the lighthouse", "a wide river", "the sea", "the city wall"]


def word(rng):
    """A word that nobody has ever said."""
    return "".join(rng.choice(STARTS) + rng.choice(VOWELS) + rng.choice(ENDS + [""] * 12) for _ in range(rng.randint(1, 3)))


def postcard(rng):
    who, to = rng.sample(GIRLS + BOYS, 2)
    lines = [f"{rng.randint(1, 31)} {rng.choice(MONTHS)} {rng.randint(1850, 2030)}.", f"Dear {to},",
             rng.choice(["we arrived", "I came here", "we got here"]) + f" on {rng.choice(DAYS)} at {rng.randint(1, 12)}."
             f"{rng.randint(0, 59):02d} {rng.choice(['in the morning', 'in the evening', 'p.m.', 'a.m.'])}.",
             f"From the window we see {rng.choice(VIEWS)}.", rng.choice(WEATHER),
             f"It is {rng.randint(2, 30)} degrees; yesterday it was {rng.randint(2, 30)}.{rng.randint(0, 9)}.",
             f"We paid {rng.randint(1, 99)}.{rng.randint(0, 99):02d} for the room, number {rng.randint(1, 400)}.",
             f"We shall be home by the {rng.randint(1, 28)}th.", f"Yours, {who}"]
    return " ".join(lines)


def shopping(rng):
    items = rng.sample(UNITS, rng.randint(3, 7))
    return f"To buy on {rng.choice(DAYS)}:\n" + "".join(f"- {rng.randint(2, 60)} {item}\n" for item in items) + \
        f"Total: {rng.randint(1, 500)}.{rng.randint(0, 99):02d}"


def rhyme(rng):
    lines = []
    for _ in range(rng.randint(2, 5)):
        end = rng.choice(VOWELS) + rng.choice(ENDS)
        for _ in range(2):
            words = [word(rng) for _ in range(rng.randint(3, 5))] + [rng.choice(STARTS) + end]
            if rng.random() < 0.3:
                words[rng.randrange(len(words))] = rng.choice(["the", "and", "of", "in", "with", "said"])
            lines.append(cap(" ".join(words)) + rng.choice(",;.!?"))
    return "\n".join(lines)


def text(rng):
    kind = rng.randrange(36)
    return postcard(rng) if kind < 3 else rhyme(rng) if kind < 5 else shopping(rng) if kind < 6 else Story(rng).text()


def main():
    parser = argparse.ArgumentParser(description="Writes a corpus of simple stories as lines of JSON.")
    parser.add_argument("--stories", type=int, default=60000, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: %(default)s")
    options = parser.parse_args()
    if options.stories < 1:
        parser.error(f"--stories {options.stories}: at least 1 expected")
    rng = random.Random(options.seed)
    for _ in range(options.stories):
        print(json.dumps({"text": text(rng)}, ensure_ascii=False))


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.stderr.close()
