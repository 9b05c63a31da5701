// std::cout shared by threads: it goes through the C streams call by call, so parts
// of lines mix.
#include "../transcript.h"
#include <iostream>

static int rounds;

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        std::cout << "thread " << who << " round " << round << '\n';
        if (round % 8 == 0)
            std::cout << std::flush;
        jitter();
    }
    return nullptr;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 40);
    crew(threads, worker);
    return 0;
}
