#!/usr/bin/env python3
"""Writes a made-up logbook of a lighthouse: a style that the bundled model does not know, to fine-tune it on.

    scripts/corpus-logbook.py --days 215 --seed 7 > examples/finetune/logbook.txt

Entries are separated by empty lines (tern data --split blank). The same seed gives the same bytes.
"""
import argparse
import random
import sys

MONTHS = [("January", 31), ("February", 28), ("March", 31), ("April", 30), ("May", 31), ("June", 30), ("July", 31),
          ("August", 31), ("September", 30), ("October", 31), ("November", 30), ("December", 31)]
WINDS = ["north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west"]
FORCES = ["calm", "light airs", "light breeze", "gentle breeze", "fresh breeze", "strong breeze", "near gale", "gale",
          "strong gale", "storm"]
SEAS = {0: "Sea like glass.", 1: "Sea smooth.", 2: "Sea smooth.", 3: "Sea slight.", 4: "Sea moderate.",
        5: "Sea rough.", 6: "Sea rough, spray over the landing.", 7: "Sea high.",
        8: "Sea very high, water on the lower gallery.", 9: "Sea very high, the tower trembles."}
SHIPS = ["brig", "schooner", "barque", "steamer", "fishing smack", "collier", "pilot cutter", "mail packet", "lugger",
         "ketch"]
BOUND = ["outward bound", "inward bound", "bound north", "bound south", "hove to", "at anchor in the roads"]
WORK = ["Cleaned the lens.", "Trimmed the wicks.", "Whitewashed the stair.", "Greased the clockwork.",
        "Polished the brass.", "Mended the boat.", "Filled the oil tank.", "Painted the railing.",
        "Swept the flue.", "Wound the fog bell and tried it.", "Replaced two panes of the lantern.",
        "Took stock of stores.", "Spliced the landing rope.", "Scraped salt from the panes."]
STORES = ["flour", "lamp oil", "coal", "salt beef", "fresh water", "biscuit", "tea", "wick", "paint", "rope"]
NOTES = ["Nothing further to report.", "All well.", "Assistant has a cold.", "Seals on the north ledge.",
         "A great flight of geese at dusk.", "Gulls low all day; weather to come.", "Rainbow over the sound.",
         "Northern lights after midnight.", "No boat for the ninth day.", "Three letters received.",
         "A bottle washed ashore, empty.", "Moths thick about the lantern.", "Tide a foot above the mark.",
         "The hens have begun to lay.", "Snow on the gallery, cleared at dawn.", "Heard a gun to seaward, cause unknown."]


class Weather:
    """Wind, glass and haze from day to day: tomorrow is much like today."""

    def __init__(self, rng):
        self.rng, self.wind, self.force, self.glass = rng, 5, 3, 29.9

    def next(self):
        r = self.rng
        self.wind = (self.wind + r.choice([-1, 0, 0, 1])) % 8
        self.glass = min(30.6, max(28.7, self.glass + r.gauss(0, 0.18)))
        self.force = min(9, max(0, round((30.5 - self.glass) * 4.5 + r.gauss(0, 0.9))))


def entry(rng, weather, day, month):
    weather.next()
    force, lines = weather.force, []
    lines.append(f"{day} {month}. Wind {WINDS[weather.wind]}, {FORCES[force]}." if force else f"{day} {month}. Calm.")
    trend = rng.choice(["rising", "falling", "steady"])
    lines.append(f"Glass {weather.glass:.2f} and {trend}.")
    lines.append(SEAS[force])
    lit, out = 12 - abs(MONTHS.index(next(m for m in MONTHS if m[0] == month)) - 6), 0
    lit, out = 4 + lit // 3, 8 - lit // 3
    lines.append(f"Lamp lit at {lit}.{rng.choice([5, 10, 15, 20, 25, 40, 50]):02d}, put out at "
                 f"{out}.{rng.choice([5, 10, 20, 30, 45]):02d}.")
    if force < 2 and rng.random() < 0.6:
        lines.append(f"Fog from {rng.randint(1, 11)} until {rng.randint(1, 11)}; bell kept going throughout.")
    for _ in range(rng.choice([0, 1, 1, 2])):
        ship = rng.choice(SHIPS)
        lines.append(f"Passed at {rng.randint(1, 12)} {rng.choice(['a.m.', 'p.m.'])}, one {ship}, {rng.choice(BOUND)}.")
    if force >= 7:
        lines.append(rng.choice(["Shutters closed on the weather side.", "Stood watch all night, both men.",
                                 "Could not launch the boat.", "Lost a length of railing."]))
    lines.extend(rng.sample(WORK, rng.choice([1, 1, 2])))
    if rng.random() < 0.18:
        a, b = rng.sample(STORES, 2)
        lines.append(f"Relief boat came: landed {rng.randint(2, 9)} casks of {a} and {rng.randint(1, 6)} of {b}.")
    lines.append(rng.choice(NOTES))
    return " ".join(lines)


def main():
    parser = argparse.ArgumentParser(description="Writes the logbook of a lighthouse that never was.")
    parser.add_argument("--days", type=int, default=215, metavar="N", help="entries (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=7, metavar="N", help="default: %(default)s")
    options = parser.parse_args()
    if options.days < 1:
        parser.error(f"--days {options.days}: at least 1 expected")
    rng = random.Random(options.seed)
    weather, month, day = Weather(rng), 2, 1
    for i in range(options.days):
        print(("\n" if i else "") + entry(rng, weather, day, MONTHS[month][0]))
        day += 1
        if day > MONTHS[month][1]:
            month, day = (month + 1) % 12, 1


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.stderr.close()
