// A minimal test framework: TEST(name) { CHECK(...); } in any .cpp file, run by main.cpp.
#pragma once

#include <cmath>
#include <cstdio>
#include <vector>

namespace check {

struct Test {
    const char* name;
    void (*run)();
};

inline std::vector<Test>& tests() {
    static std::vector<Test> all;
    return all;
}

inline int& failures() {
    static int count = 0;
    return count;
}

struct Register {
    Register(const char* name, void (*run)()) { tests().push_back({name, run}); }
};

inline void report(bool passed, const char* what, const char* file, int line) {
    if (passed) return;
    ++failures();
    std::printf("%s:%d: failed: %s\n", file, line, what);
}

inline bool near(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance; }

}  // namespace check

#define TEST(name)                                             \
    static void name();                                        \
    static const check::Register register_##name(#name, name); \
    static void name()

#define CHECK(...) check::report(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)

#define CHECK_THROWS(exception, statement) \
    do {                                   \
        bool thrown = false;               \
        try {                              \
            statement;                     \
        } catch (const exception&) {       \
            thrown = true;                 \
        }                                  \
        CHECK(thrown && #statement);       \
    } while (false)
