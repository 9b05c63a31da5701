# What an interpreter does all day, in one thread: calls, objects, lists, dictionaries, strings, numbers.
# Prints one line without any time in it.
import sys


class Body:
    __slots__ = ("place", "speed")

    def __init__(self, place, speed):
        self.place = place
        self.speed = speed

    def step(self, pull):
        self.speed += pull * 0.01
        self.place += self.speed * 0.01


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def sieve(limit):
    candidates = bytearray([1]) * limit
    for n in range(2, int(limit**0.5) + 1):
        if candidates[n]:
            candidates[n * n :: n] = bytes(len(range(n * n, limit, n)))
    return sum(candidates[2:])


def words(count):
    tally = {}
    state = 1
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2**31
        word = "w%d" % (state >> 20)
        tally[word] = tally.get(word, 0) + 1
    return sorted(tally.items(), key=lambda item: (-item[1], item[0]))[0]


def bodies(steps):
    all_of_them = [Body(float(n), 0.0) for n in range(20)]
    for _ in range(steps):
        middle = sum(body.place for body in all_of_them) / len(all_of_them)
        for body in all_of_them:
            body.step(middle - body.place)
    return all_of_them[0].place


rounds = int(sys.argv[1])
for _ in range(rounds):
    result = (fibonacci(21), sieve(200000), words(50000), bodies(1000))
print(rounds, result)
