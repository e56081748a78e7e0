// Early termination of a call: by Ctrl-C, and by a limit on memory.
//
// Both are exceptions; objects that they leave half-changed are never used again. A loop that may run for
// long reports its work by poll(steps), where a step is about a nanosecond. After about a million steps a
// thread reads the stop flag of its call. The thread that made the call also reads the clock, and several
// times per second runs the check of the call (in Python: the signal handlers, which need the GIL). If the
// check throws, all threads of the call stop.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <new>

#include "simd.hpp"

namespace LOGSUPER_ISA {

// Thrown by poll() in the helper threads of a call that has ended.
struct CallStopped {};

// Thrown where a thread would take more work space than its call is allowed.
struct WorkspaceLimitExceeded : std::bad_alloc {
    const char* what() const noexcept override { return "the work space would exceed the limit"; }
};

// One object per call, in the thread that made the call. A signal handler may make another call inside it.
class CallMonitor {
   public:
    using Check = void (*)();  // throws if the call has to end
    static constexpr std::chrono::milliseconds kInterval{100};
    static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

   private:
    using Clock = std::chrono::steady_clock;
    static constexpr int64_t kSteps = int64_t{1} << 20;

    struct ThreadState {
        CallMonitor* monitor;  // of the call that this thread works for
        bool is_caller;        // whether this thread made the call
        int64_t steps_left;    // until the flag is read next
    };
    static ThreadState& thread_state() {
        static thread_local ThreadState state{nullptr, false, kSteps};
        return state;
    }

    const Check check_;
    const ThreadState outer_;
    Clock::time_point next_check_{};  // set at the first look at the clock, which short calls never reach
    std::atomic<bool> stop_{false};
    std::atomic<int64_t> bytes_left_;  // of work space

    [[gnu::noinline]] static void check_flag() {
        ThreadState& state = thread_state();
        state.steps_left = kSteps;
        CallMonitor* const monitor = state.monitor;
        if (!monitor) return;
        if (monitor->stop_.load(std::memory_order_relaxed)) throw CallStopped();
        if (!state.is_caller) return;
        const auto now = Clock::now();
        if (monitor->next_check_ == Clock::time_point{}) monitor->next_check_ = now + kInterval;
        if (now >= monitor->next_check_) monitor->check_now();
    }

   public:
    explicit CallMonitor(Check check, int64_t workspace_limit = kUnlimited)
        : check_(check), outer_(thread_state()), bytes_left_(workspace_limit) {
        thread_state() = {this, true, kSteps};
    }
    ~CallMonitor() { thread_state() = outer_; }
    CallMonitor(const CallMonitor&) = delete;
    CallMonitor& operator=(const CallMonitor&) = delete;

    // The monitor of this thread, null if there is none; a helper thread joins that of the call.
    static CallMonitor* current() { return thread_state().monitor; }
    static void join(CallMonitor* monitor) { thread_state() = {monitor, false, kSteps}; }

    // Called before work space is allocated that a worker keeps for the next call.
    static void reserve(int64_t bytes) {
        CallMonitor* const monitor = current();
        if (monitor && monitor->bytes_left_.fetch_sub(bytes) < bytes) throw WorkspaceLimitExceeded();
    }

    // Runs the check; only in the thread that made the call.
    void check_now() {
        try {
            check_();
        } catch (...) {
            stop_.store(true, std::memory_order_relaxed);
            throw;
        }
        next_check_ = Clock::now() + kInterval;
    }

    static LOGSUPER_INLINE void poll(int64_t steps) {
        if ((thread_state().steps_left -= steps) <= 0) check_flag();
    }
};

LOGSUPER_INLINE void poll(int64_t steps) { CallMonitor::poll(steps); }

// body(i) for i = 0, Stride, 2 Stride, ... < n, each of so many steps; polls once per block of 1024.
template <int64_t Stride = 1, class Body>
LOGSUPER_INLINE void polled(int64_t n, int64_t steps, Body&& body) {
    constexpr int64_t kBlock = 1024 * Stride;
    if (n <= kBlock) {
        for (int64_t i = 0; i < n; i += Stride) body(i);
        return;
    }
    for (int64_t first = 0; first < n; first += kBlock) {
        const int64_t last = first + kBlock < n ? first + kBlock : n;
        for (int64_t i = first; i < last; i += Stride) body(i);
        poll(1024 * steps);
    }
}

// For paths of a search, which are short as a rule: polls only after a long one.
LOGSUPER_INLINE void poll_if_many(int64_t steps) {
    if (steps > 64) poll(16 * steps);
}

// For loops over the rows of an image: polls once per 64 rows.
LOGSUPER_INLINE void poll_at_row(int64_t row, int64_t steps) {
    if (!(row & 63)) poll(steps << 6);
}

}  // namespace LOGSUPER_ISA
