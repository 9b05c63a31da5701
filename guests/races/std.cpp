// C++ threads and what they wait with.
#include "twins.h"
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

std::mutex mutex, another;
std::shared_mutex readers;
std::condition_variable changed;
std::condition_variable_any changed_any;
volatile int shared;
bool ready;

void locked()
{
    std::scoped_lock both(mutex, another);
    shared = 1;
}

void locked_by_one()
{
    std::unique_lock<std::mutex> lock(mutex);
    shared = 2; // race by_one
}

void locked_by_another()
{
    std::lock_guard<std::mutex> lock(another);
    shared = 3; // race by_another
}

void writer()
{
    std::unique_lock<std::shared_mutex> lock(readers);
    shared = 1;
}

void reader()
{
    std::shared_lock<std::shared_mutex> lock(readers);
    (void)int(shared);
}

void writing_reader()
{
    std::shared_lock<std::shared_mutex> lock(readers);
    shared = 2; // race writing_reader
}

void another_reader()
{
    std::shared_lock<std::shared_mutex> lock(readers);
    (void)int(shared); // race another_reader
}

void sender()
{
    shared = 1;
    {
        std::lock_guard<std::mutex> lock(mutex);
        ready = true;
    }
    changed.notify_one();
    changed_any.notify_all();
}

void receiver()
{
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [] { return ready; });
    (void)int(shared);
}

void timed_receiver()
{
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(60), [] { return ready; });
    (void)int(shared);
}

void receiver_of_any()
{
    std::unique_lock<std::mutex> lock(mutex);
    changed_any.wait(lock, [] { return ready; });
    (void)int(shared);
}

void two(void (*one)(), void (*other)())
{
    std::jthread first(one), second(other);
}

// Arguments are copied before the thread begins; those by reference are lent.
void by_value()
{
    std::string text(1000, 'x');
    std::thread thread([text] { (void)text.size(); });
    text[0] = 'y';
    thread.join();
}

void by_reference()
{
    volatile int local = 0;
    std::thread thread([&local] {
        local = 1; // race in_lambda
    });
    local = 2; // race beside_lambda
    thread.join();
}

// Each its own element of a vector, and a vector that all of them make longer.
void elements()
{
    std::vector<int> numbers(8);
    std::vector<std::thread> threads;
    for (int which = 0; which < 8; which++)
        threads.emplace_back([&numbers, which] { numbers[size_t(which)] = which; });
    for (std::thread &thread : threads)
        thread.join();
}

void growing()
{
    std::vector<int> numbers;
    std::vector<std::thread> threads;
    for (int which = 0; which < 8; which++)
        threads.emplace_back([&numbers] {
            for (int round = 0; round < 50; round++) {
                std::lock_guard<std::mutex> lock(mutex);
                numbers.push_back(round);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
}

} // namespace

int main(int argc, char **argv)
{
    const std::string name = word(argc, argv, 1, "");
    if (name == "locked")
        two(locked, locked_by_one);
    else if (name == "different")
        two(locked_by_one, locked_by_another);
    else if (name == "shared")
        two(writer, reader);
    else if (name == "reader_writes")
        two(writing_reader, another_reader);
    else if (name == "condition")
        two(sender, receiver);
    else if (name == "condition_timed")
        two(sender, timed_receiver);
    else if (name == "condition_any")
        two(sender, receiver_of_any);
    else if (name == "by_value")
        by_value();
    else if (name == "by_reference")
        by_reference();
    else if (name == "elements")
        elements();
    else if (name == "growing")
        growing();
    else
        return 98;
    return 0;
}
