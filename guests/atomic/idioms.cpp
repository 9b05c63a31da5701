// What programs hand over by with nothing but std::atomic: flags, a ticket lock, a stack, a ring, a
// sequence lock and shared ownership. Most of their loads and stores are plain instructions; that
// they are atomic only debug information tells.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

static unsigned long fold(unsigned long all, unsigned long next) { return all * 31 + next; }

struct Flag {
    std::atomic_flag taken = ATOMIC_FLAG_INIT;
    void lock() {
        while (taken.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
    }
    void unlock() { taken.clear(std::memory_order_release); }
};

struct Ticket {
    std::atomic<unsigned> next{0}, now{0};
    void lock() {
        unsigned own = next.fetch_add(1);
        while (now.load(std::memory_order_acquire) != own) std::this_thread::yield();
    }
    void unlock() { now.store(now.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
};

struct Ring {
    std::atomic<unsigned> read{0}, written{0};
    unsigned room[16];
    bool push(unsigned value) {
        unsigned at = written.load(std::memory_order_relaxed);
        if (at - read.load(std::memory_order_acquire) == 16) return false;
        room[at % 16] = value;
        written.store(at + 1, std::memory_order_release);
        return true;
    }
    bool pop(unsigned &value) {
        unsigned at = read.load(std::memory_order_relaxed);
        if (at == written.load(std::memory_order_acquire)) return false;
        value = room[at % 16];
        read.store(at + 1, std::memory_order_release);
        return true;
    }
};

struct Sequence {
    std::atomic<unsigned> count{0}, one{0}, two{0};
    void set(unsigned value) {
        count = count + 1;
        one.store(value, std::memory_order_relaxed);
        two.store(value * 2, std::memory_order_relaxed);
        count = count + 1;
    }
    unsigned get() {
        for (;;) {
            unsigned before = count.load(std::memory_order_acquire);
            unsigned sum = one.load(std::memory_order_relaxed) + two.load(std::memory_order_relaxed);
            std::atomic_thread_fence(std::memory_order_acquire);
            if (before % 2 == 0 && count.load(std::memory_order_relaxed) == before) return sum;
            std::this_thread::yield();
        }
    }
};

struct Node {
    unsigned long value;
    Node *next;
};

static Flag flag;
static Ticket ticket;
static Ring ring;
static Sequence sequence;
static std::atomic<Node *> top{nullptr};
static std::atomic<bool> go{false};
static std::atomic<unsigned long> last{0};
static unsigned long by_flag = 1, by_ticket = 1, by_ring = 1;

static void work(unsigned number, unsigned rounds, unsigned long &seen) {
    while (!go) std::this_thread::yield();
    for (unsigned round = 0; round < rounds; round++) {
        flag.lock();
        by_flag = fold(by_flag, number);
        flag.unlock();
        ticket.lock();
        by_ticket = fold(by_ticket, number);
        ticket.unlock();
        Node *own = new Node{number * rounds + round, top.load(std::memory_order_relaxed)};
        while (!top.compare_exchange_weak(own->next, own)) {}
        seen = fold(seen, sequence.get());
    }
}

static void produce(unsigned rounds) {
    for (unsigned round = 0; round < rounds; round++) {
        while (!ring.push(round)) std::this_thread::yield();
        sequence.set(round);
    }
}

static void consume(unsigned rounds) {
    unsigned in_vain = 0, value = 0;
    for (unsigned round = 0; round < rounds;) {
        if (ring.pop(value)) {
            by_ring = fold(by_ring, value + in_vain);
            round++;
        } else {
            in_vain++;
            std::this_thread::yield();
        }
    }
}

static void give_up(std::shared_ptr<int> own, unsigned number) {
    std::weak_ptr<int> weak = own;
    if (own.use_count() > 2) last = last * 3 + number;
    own.reset();
    if (weak.expired()) last = last * 7 + number;
}

int main(int argc, char **argv) {
    unsigned threads = argc > 1 ? atoi(argv[1]) : 2, rounds = argc > 2 ? atoi(argv[2]) : 100;
    std::vector<unsigned long> seen(threads, 1);
    std::vector<std::thread> all;
    auto shared = std::make_shared<int>(1);
    for (unsigned number = 0; number < threads; number++) {
        all.emplace_back(work, number, rounds, std::ref(seen[number]));
        all.emplace_back(give_up, shared, number);
    }
    all.emplace_back(produce, rounds);
    all.emplace_back(consume, rounds);
    shared.reset();
    go = true;
    for (auto &one : all) one.join();
    unsigned long stacked = 1, looked = 1;
    for (Node *node = top; node; node = node->next) stacked = fold(stacked, node->value);
    for (unsigned long each : seen) looked = fold(looked, each);
    printf("%lx %lx %lx %lx %lx %lx\n", by_flag, by_ticket, by_ring, stacked, looked, last.load());
    return 0;
}
