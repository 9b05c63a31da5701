// The C++ library's own primitives that reach pthread: std::thread, the mutexes,
// std::shared_mutex, std::condition_variable, std::scoped_lock.
#include "../transcript.h"
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

static std::mutex plain;
static std::recursive_timed_mutex timed;
static std::shared_mutex shared;
static std::mutex one, other;
static std::condition_variable changed;
static transcript in_plain, in_timed, in_shared, in_pair;
static int turn;

static void work(int who, int threads, int rounds, uint64_t *seen)
{
    for (int round = 0; round < rounds; round++) {
        {
            std::lock_guard<std::mutex> hold(plain);
            note(&in_plain, who);
        }
        while (!timed.try_lock_for(std::chrono::microseconds(20)))
            *seen = fold(*seen, 1);
        note(&in_timed, who);
        timed.unlock();
        if ((who + round) % 2) {
            std::unique_lock<std::shared_mutex> hold(shared);
            note(&in_shared, who);
        } else {
            std::shared_lock<std::shared_mutex> hold(shared);
            *seen = fold(*seen, in_shared.hash);
        }
        std::scoped_lock both(one, other);
        note(&in_pair, who);
    }
    std::unique_lock<std::mutex> hold(plain);
    changed.wait(hold, [&] { return turn % threads == who; });
    turn++;
    note(&in_plain, who);
    changed.notify_all();
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    int rounds = number(argc, argv, 2, 50);
    std::vector<std::thread> crew;
    std::vector<uint64_t> seen(threads);
    for (int who = 0; who < threads; who++)
        crew.emplace_back(work, who, threads, rounds, &seen[who]);
    for (auto &thread : crew)
        thread.join();
    show("plain", &in_plain);
    show("timed", &in_timed);
    show("shared", &in_shared);
    show("pair", &in_pair);
    for (uint64_t hash : seen)
        printf("seen %016llx\n", (unsigned long long)hash);
    return 0;
}
