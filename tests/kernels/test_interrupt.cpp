// Early termination: limits on work space, checks that throw, teams of threads.
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

#include "buffer.hpp"
#include "check.hpp"
#include "interrupt.hpp"
#include "team.hpp"

using namespace LOGSUPER_ISA;

namespace {

struct Interrupted {};
void never() {}
void interrupt() { throw Interrupted(); }

// Polls until the check of the call has been due for a while.
void work_for_long() {
    for (int i = 0; i < 20; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        poll(int64_t{1} << 21);
    }
}

}  // namespace

TEST(work_space_is_limited_per_call) {
    CallMonitor::reserve(int64_t{1} << 60);  // no call, no limit
    CallMonitor monitor(never, 100);
    CallMonitor::reserve(60);
    CHECK_THROWS(WorkspaceLimitExceeded, CallMonitor::reserve(41));
}

TEST(a_call_inside_a_call_has_its_own_limit) {
    CallMonitor outer(never, 100);
    {
        CallMonitor inner(never, 10);
        CHECK(CallMonitor::current() == &inner);
        CHECK_THROWS(WorkspaceLimitExceeded, CallMonitor::reserve(11));
    }
    CHECK(CallMonitor::current() == &outer);
    CallMonitor::reserve(100);
}

TEST(a_check_that_throws_ends_the_loop) {
    work_for_long();  // outside of any call nothing happens
    CallMonitor monitor(interrupt);
    CHECK_THROWS(Interrupted, work_for_long());
    CHECK_THROWS(CallStopped, poll(int64_t{1} << 21));  // and everything after it
}

TEST(polled_visits_every_index_once) {
    for (int64_t n : {0, 1, 1023, 1024, 1025, 5000}) {
        std::vector<int> visits(n + 4);
        polled(n, 1, [&](int64_t i) { ++visits[i]; });
        for (int64_t i = 0; i < n + 4; ++i) CHECK(visits[i] == (i < n));
        int64_t next = 0;
        polled<4>(n, 1, [&](int64_t i) {
            CHECK(i == next);
            next += 4;
        });
        CHECK(next == (n + 3) / 4 * 4);
    }
}

TEST(a_team_runs_every_task_once) {
    for (int threads : {1, 2, 5}) {
        std::vector<std::atomic<int>> runs(1000);
        run_team<int>(1000, threads, [&](int&, int64_t task) { ++runs[task]; });
        for (const auto& count : runs) CHECK(count == 1);
    }
}

TEST(an_exception_of_a_task_reaches_the_caller) {
    for (int threads : {1, 4}) {
        const auto fail = [](int&, int64_t task) {
            if (task == 37) throw std::runtime_error("37");
        };
        CHECK_THROWS(std::runtime_error, run_team<int>(100, threads, fail));
    }
}

TEST(a_check_that_throws_ends_all_threads) {
    CallMonitor monitor(interrupt);
    CHECK_THROWS(Interrupted, run_team<int>(4, 4, [](int&, int64_t) {
                     for (;;) {
                         std::this_thread::sleep_for(std::chrono::milliseconds(1));
                         poll(int64_t{1} << 18);
                     }
                 }));
}

TEST(buffers_are_zero_and_have_guards) {
    for (int64_t n : {1, 1000, 1 << 20}) {
        Buffer<int32_t> buffer;
        buffer.allocate(n, 64);
        int64_t sum = 0;
        for (int64_t i = -64; i < n + 64; ++i) sum |= buffer.data[i];
        CHECK(sum == 0);
        CHECK(reinterpret_cast<uintptr_t>(buffer.data) % 64 == 0);
    }
}
