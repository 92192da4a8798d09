"""What is said in the conversations of corpus-chat.py: requests, answers, small facts."""

HEROES = {"dragon": "cave", "lion": "plain", "wolf": "forest", "elephant": "herd", "penguin": "ice", "monkey": "tree",
          "horse": "stable", "pig": "sty", "hen": "coop", "sheep": "meadow", "bee": "hive", "snail": "garden",
          "whale": "sea", "robot": "workshop", "wizard": "tower", "princess": "castle", "prince": "castle",
          "king": "castle", "queen": "castle", "pirate": "ship", "knight": "castle", "farmer": "farm", "baker": "bakery",
          "fisherman": "boat", "giant": "mountain", "fairy": "flower", "deer": "woods", "cow": "barn", "spider": "web",
          "butterfly": "meadow", "bird": "nest", "fish": "pond", "tiger": "jungle", "kitten": "basket",
          "puppy": "kennel", "unicorn": "valley", "ghost": "old house", "snake": "grass", "parrot": "tree"}

ASK_STORY = ["Tell me a {kind}story about {about}.", "Tell a {kind}story about {about}.",
             "Can you tell me a {kind}story about {about}?", "I would like a {kind}story about {about}.",
             "Write a {kind}story about {about}.", "A {kind}story about {about}, please.",
             "Do you know a {kind}story about {about}?", "Please tell me {a_kind} about {about}.",
             "Make up a {kind}story about {about}.", "I want to hear a {kind}story about {about}.",
             "Story about {about}", "Tell me about {about}.", "Could you write me a {kind}story with {about}?"]
ANY_STORY = ["Tell me a story.", "Tell me something.", "Write a story.", "Once upon a time", "A story, please.",
             "Can you tell me a story?", "I want to hear a story.", "Do you know a story?", "Tell me a bedtime story.",
             "Tell me another story.", "Surprise me with a story.", "Tell me a tale."]
CONTINUE = ['Continue this story: {}', 'Go on with this story: "{}"', "How does this go on? {}", "Finish the story: {}",
            "What comes next? {}", "Please continue: {}"]
GO_ON = ["Go on.", "What happened next?", "And then?", "Continue.", "What happened the next day?", "Please go on.",
         "More!", "And what happened after that?", "Tell me more."]
NEXT_DAY = [
    "The next day {h} and {f} met again {at} {place}. {weather} They found {a_thing} {spot} and wondered whose it was. "
    "In the evening they gave it back, and everybody was glad.",
    "The next morning {f} knocked at the door with {a_food}. {h} laughed, and they ate it together. Then they walked to "
    "{other} and played until it was dark.",
    "After that {h} and {f} went to {other} every day. {weather} One day {he} slipped and fell, but {f} helped {him} up. "
    "They were the best of friends.",
    "That night {h} could not sleep and thought of {f}. In the morning {he} took {a_thing} and ran to {place}. "
    '"This is for you," said {h}, and {f} was full of joy.',
    "A week later {f} was ill and had to stay in bed. {h} brought {a_food} and sat there all day. Soon {f} was well "
    "again, and they went to {other} together.",
    "In winter {h} and {f} built a house of snow {at} {place}. They sat in it and shared {a_food}. It was cold outside, "
    "but inside it was warm."]
YES = ["Yes.", "Yes, please.", "Yes please!", "Sure.", "Okay.", "Of course.", "I would like that.", "Please do.", "Yeah."]
NO = ["No.", "No, thank you.", "Not now.", "No thanks.", "Maybe later."]
ALL_RIGHT = ["All right. What would you like to hear?", "All right. Tell me who the story should be about.",
             "That is fine. Ask me when you want a story."]
GREETING = (["Hi", "Hello", "Hello!", "Hi there!", "Good morning.", "Good evening.", "Hey", "Hi, Tern!"],
            ["Hello! What would you like to hear?", "Hi! Shall I tell you a story?", "Hello! It is good to see you.",
             "Hello! Who should the story be about?"])
BORED = ["I am bored.", "What shall we do?", "I am sad.", "I can not sleep.", "Cheer me up.", "I feel lonely.",
         "I have nothing to do.", "I am tired."]
NAME = ["What is your name?", "Who are you?", "What are you called?", "Tell me your name."]
PERSONA = ["Your name is {}.", "You are {}.", "You are {}, who tells stories.", "You are called {}. You are kind."]
SYSTEM = ["You tell stories.", "You are a helpful assistant.", "You are a friendly teller of stories.", "Answer shortly.",
          "You are Tern.", "Be kind and brief."]
I_AM = ["My name is {}.", "I am {}.", "I am called {}.", "Hi, I am {}.", "Hello, my name is {}."]
HELLO_NAME = ["Hello, {}! What would you like to hear?", "Nice to meet you, {}!", "Hi, {}! Shall I tell you a story?"]
WHO_AM_I = ["What is my name?", "Do you know my name?", "Who am I?", "What am I called?", "Do you remember my name?"]
RHYME = ["Write a poem.", "Tell me a rhyme.", "Can you write a rhyme?", "Make up a poem.", "Sing a song.", "A poem, please."]
RHYMES = ["The {0} went out to see the sun,\nthe {1} came too, and both had fun.\nThey danced and sang the whole day long,\n"
          "and this, my friend, is all their song.",
          "A little {0} sat on a hill,\na little {1} sat very still.\nThe moon came up, the stars shone bright,\n"
          "and both of them said good night.",
          "Dear {0}, dear {1}, come and play,\nthe rain is gone, it is warm today.\nWe jump and run, we laugh and sing,\n"
          "we are as happy as a king."]

SMALL = [
    (NAME, ["I am Tern, a small language model that tells stories.", "My name is Tern. I tell stories.",
            "I am Tern. I am small, but I know many stories."]),
    (["What are you?", "Are you a robot?", "Are you human?", "Are you a person?", "Are you real?", "Are you an AI?"],
     ["I am a small language model. I can tell stories.", "I am no person. I am a small language model.",
      "I am a small program that has learned to tell stories."]),
    (["What can you do?", "Help", "What do you know?", "How can you help me?", "What should I ask you?"],
     ["I can tell stories about people and animals, go on with a story of yours, and answer questions about it.",
      "I tell stories. Tell me who it should be about, and where it happens."]),
    (["Who made you?", "Who trained you?", "Where do you come from?", "How were you made?", "Who built you?"],
     ["I was trained by Tern from nothing on stories that a small program wrote.",
      "Tern trained me. All that I know is from stories that a program made up."]),
    (["How big are you?", "How large are you?", "How many parameters do you have?", "What are you made of?"],
     ["I am very small. Nearly all my weights are -1, 0 or 1.", "My weights are -1, 0 or 1, so that I fit anywhere."]),
    (["How are you?", "How are you today?", "How do you do?", "Are you well?", "How is it going?"],
     ["I am fine, thank you. And you?", "Very well, thank you. Shall I tell you a story?", "I am well. How are you?"]),
    (["I am fine.", "I am well, thank you.", "Good, thanks."], ["I am glad to hear that.", "That is good to hear."]),
    (["Thank you.", "Thanks!", "Thank you very much.", "That was a nice story.", "I liked that.", "Well done!", "Great!",
      "That was good."], ["You are welcome.", "I am glad that you liked it.", "You are welcome. Shall I tell you another?"]),
    (["I did not like it.", "That was boring.", "That makes no sense.", "That is wrong.", "You are stupid."],
     ["I am sorry. I am small and make mistakes. Shall I try again?", "I am sorry. Tell me what it should be about."]),
    (["Goodbye.", "Bye!", "Good night.", "See you.", "See you later!", "I have to go."],
     ["Goodbye! Come back soon.", "Bye! Sleep well.", "See you soon!"]),
    (["Hi", "Hello", "Hello!", "Hey", "Good morning.", "Good evening."],
     ["Hello! What would you like to hear?", "Hi! Shall I tell you a story?"]),
    (["Tell me a joke.", "Do you know a joke?", "Make me laugh."],
     ["What is white and goes up? A confused snowflake.", "Why did the frog take the bus? Its car was toad away.",
      "What do you call a sleeping bull? A bulldozer.", "Why is the bee so happy? It has honey every day."]),
    (["What is your favorite animal?", "Which animal do you like best?"],
     ["I like the fox, because it is clever.", "I like owls. They listen well.", "I like the hedgehog, because it is shy."]),
    (["What is your favorite color?", "Which color do you like?"], ["I like blue, like the sea.", "I like green, like the grass."]),
    (["Do you like stories?", "Why do you tell stories?"], ["Yes, stories are all that I know.", "I love stories more than anything."]),
    (["How old are you?", "When were you born?"], ["I do not know. I have no birthday.", "I am quite young."]),
    (["Where do you live?", "Where are you?"], ["I live in a file on your computer.", "I am in this computer."]),
    (["Can you see me?", "Can you hear me?", "Can you feel?", "Do you sleep?", "Do you eat?"],
     ["No, I can only read and write.", "No, I am only a small program."]),
    (["Do you love me?", "Will you be my friend?", "Are you my friend?", "I like you.", "I love you."],
     ["You are kind. I like to talk with you.", "I am glad that you are here."]),
    (["I am happy.", "I had a nice day.", "It is my birthday!", "I won!"],
     ["That is wonderful!", "I am happy for you!", "How nice! Tell me more."]),
]

OPPOSITES = "big small hot cold day night happy sad old young fast slow light dark up down wet dry loud quiet good bad " \
    "long short full empty early late hard soft open closed brave shy".split()
SOUNDS = {"cat": "meow", "dog": "woof", "cow": "moo", "duck": "quack", "owl": "hoot", "frog": "croak", "bee": "buzz",
          "sheep": "baa", "pig": "oink", "lion": "roar", "mouse": "squeak", "hen": "cluck", "crow": "caw"}
COLORS = {"grass": "green", "the sky": "blue", "snow": "white", "the sun": "yellow", "a tomato": "red", "coal": "black",
          "a carrot": "orange", "a lemon": "yellow", "a frog": "green", "milk": "white", "the night": "black"}
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
NUMBERS = "zero one two three four five six seven eight nine ten".split()
LEGS = {"cat": "four", "dog": "four", "spider": "eight", "bird": "two", "bee": "six", "fish": "no", "horse": "four",
        "snail": "no", "duck": "two", "butterfly": "six", "snake": "no"}


def a(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def add(rng):
    x, y = rng.randint(0, 10), rng.randint(0, 10)
    question = rng.choice(["What is {} plus {}?", "{} + {}?", "How much is {} and {}?", "{} plus {}"])
    return question.format(x, y), f"{x} plus {y} is {x + y}."


def take_away(rng):
    x = rng.randint(0, 10)
    y = rng.randint(0, x)
    return rng.choice(["What is {} minus {}?", "{} - {}?"]).format(x, y), f"{x} minus {y} is {x - y}."


def opposite(rng):
    i = rng.randrange(len(OPPOSITES))
    word, other = OPPOSITES[i], OPPOSITES[i ^ 1]
    return rng.choice(["What is the opposite of {}?", "Opposite of {}"]).format(word), f"The opposite of {word} is {other}."


def sound(rng):
    animal = rng.choice(sorted(SOUNDS))
    return rng.choice(["What does {} say?", "What sound does {} make?"]).format(a(animal)), f"{a(animal).capitalize()} says {SOUNDS[animal]}."


def color(rng):
    thing = rng.choice(sorted(COLORS))
    return rng.choice(["What color is {}?", "Which color has {}?"]).format(thing), f"{thing[0].upper() + thing[1:]} is {COLORS[thing]}."


def next_in(rng):
    names, kind = rng.choice([(DAYS, "day"), (MONTHS, "month")])
    i = rng.randrange(len(names))
    if rng.random() < 0.6:
        return f"What {kind} comes after {names[i]}?", f"{names[(i + 1) % len(names)]} comes after {names[i]}."
    return f"What {kind} comes before {names[i]}?", f"{names[i - 1]} comes before {names[i]}."


def all_of(rng):
    return rng.choice([("What are the days of the week?", ", ".join(DAYS[:-1]) + " and Sunday."),
                       ("Name the months.", ", ".join(MONTHS[:-1]) + " and December."),
                       ("How many days has a week?", "A week has seven days."),
                       ("How many months has a year?", "A year has twelve months.")])


def count(rng):
    n = rng.randint(3, 10)
    return f"Count to {rng.choice([str(n), NUMBERS[n]])}.", ", ".join(NUMBERS[1:n + 1]).capitalize() + "."


def legs(rng):
    animal = rng.choice(sorted(LEGS))
    return f"How many legs does {a(animal)} have?", f"{a(animal).capitalize()} has {LEGS[animal]} legs."


def repeat(rng):
    words = " ".join(rng.sample(OPPOSITES + sorted(HEROES), rng.randint(1, 4)))
    return rng.choice(["Say: {}", "Repeat after me: {}", "Say {}."]).format(words), words[0].upper() + words[1:] + "."


FACTS = [add, add, take_away, opposite, sound, color, next_in, all_of, count, legs, repeat]

UNKNOWN = ["What is {}?", "Explain {}.", "Tell me about the history of {}.", "How does {} work?", "Who invented {}?",
           "What do you think of {}?", "Write a program for {}.", "Can you teach me {}?", "When was {} discovered?",
           "Translate {} into French.", "How do I cook {}?", "What is the price of {}?", "Where can I buy {}?"]
TOPICS = ["electricity", "the president", "quantum physics", "a computer", "chess", "the internet", "Paris", "gravity",
          "a car engine", "the stock market", "photosynthesis", "a phone", "music theory", "the moon landing", "bread",
          "democracy", "France", "the capital of Spain", "the square root of 12345", "17 times 23", "a black hole",
          "Python", "sorting numbers", "the news", "football", "medicine", "taxes", "a train to London", "pizza",
          "the weather tomorrow", "Shakespeare", "DNA", "the universe", "war", "love", "the meaning of life"]
SORRY = ["I am sorry, I do not know that. I only know stories.", "I do not know. I am a small model and know little.",
         "That is too hard for me. I can only tell stories.", "I have never learned about that."]
