// std::promise waits in a futex that this level does not see. A replay ends like
// the recording or in a divergence report.
#include "../transcript.h"
#include <future>
#include <mutex>
#include <thread>
#include <vector>

static std::mutex mutex;
static transcript order;

static void lock_and_note(int what)
{
    std::lock_guard<std::mutex> hold(mutex);
    note(&order, what);
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    int rounds = number(argc, argv, 2, 20);
    std::vector<std::promise<int>> promises(threads);
    std::vector<std::thread> crew;
    for (int who = 0; who < threads; who++)
        crew.emplace_back([&, who] {
            for (int round = 0; round < rounds; round++) {
                lock_and_note(who);
                jitter();
            }
            promises[who].set_value(who);
        });
    for (int who = 0; who < threads; who++)
        lock_and_note(20 + promises[who].get_future().get());
    for (auto &thread : crew)
        thread.join();
    show("order", &order);
    return 0;
}
