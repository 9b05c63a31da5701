/* C++: frames that an exception is leaving, handlers, members, functions that the library calls. */
#include "told.h"
#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

struct Guard {
    std::string name;
    __attribute__((noinline)) ~Guard() { take(); }
};

struct Base {
    virtual int work(int n) = 0;
    virtual ~Base() = default;
};

struct Derived : Base {
    std::vector<int> numbers;
    __attribute__((noinline)) int work(int n) override {
        Guard guard{std::to_string(n)};
        numbers.push_back(n);
        if (n > 2)
            throw std::runtime_error("too many");
        return numbers.back();
    }
};

__attribute__((noinline)) int attempt(Base &base, int n) {
    try {
        return base.work(n);
    } catch (const std::exception &error) {
        take();
        return error.what()[0];
    }
}

int main() {
    Derived derived;
    int sum = attempt(derived, 1) + attempt(derived, 3);
    std::function<bool(int, int)> less = [&](int a, int b) { take(); return a < b + sum * 0; };
    std::vector<int> numbers{3, 1, 2};
    std::sort(numbers.begin(), numbers.end(), less);
    return numbers[0] == 1000;
}
