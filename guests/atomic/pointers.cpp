// Shared pointers that are copied and dropped by several threads, a flag that is
// waited for by loads, and counts that go by plain loads and stores of atomics.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 4, rounds = argc > 2 ? atoi(argv[2]) : 500;
    auto first = std::make_shared<std::vector<int>>(3);
    std::atomic<bool> go{false};
    std::atomic<long> sum{0};
    std::vector<long> seen(threads);
    std::vector<std::thread> crew;
    for (int who = 0; who < threads; who++)
        crew.emplace_back([&, who] {
            while (!go.load(std::memory_order_acquire))
                ;
            for (int round = 0; round < rounds; round++) {
                auto copy = first;
                sum.store(sum.load(std::memory_order_relaxed) + copy.use_count(), std::memory_order_release);
                seen[who] = seen[who] * 31 + sum.load();
            }
        });
    go.store(true);
    for (auto &thread : crew)
        thread.join();
    printf("%ld", sum.load());
    for (long value : seen)
        printf(" %lx", value);
    printf(" %ld\n", first.use_count());
}
