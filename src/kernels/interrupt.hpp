// What ends a call before its time: Ctrl-C, and a limit on memory.
//
// Both are exceptions that unwind whatever runs; what they leave half done is never used again.
// Every loop that may run for long says now and then what it has done: poll(steps), a step being some
// nanosecond. After about a million steps a thread reads the stop flag of its call, and the thread
// that made the call reads the clock too: several times a second it runs the check of the call (in
// Python: the signal handlers, for which it needs the GIL). If that throws, all threads stop.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <new>

#include "simd.hpp"

namespace LOGSUPER_ISA {

// What a loop throws, in a thread that helps, when the call is over.
struct Stopped {};

// What a thread throws that would take more work space than the call is allowed.
struct OutOfRoom : std::bad_alloc {
    const char* what() const noexcept override { return "the work space would exceed the limit"; }
};

// One for each call, in the thread that made it; a handler may make another call inside of it.
class Watch {
   public:
    using Check = void (*)();  // throws if the call shall end
    static constexpr std::chrono::milliseconds kInterval{100};

   private:
    using Clock = std::chrono::steady_clock;
    static constexpr int64_t kSteps = int64_t{1} << 20;

    // What a thread knows of the call that it works for.
    struct Turn {
        Watch* watch;
        bool made_it;  // the call, that is
        int64_t left;  // steps until the next look at the flag
    };
    static Turn& turn() {
        static thread_local Turn mine{nullptr, false, kSteps};
        return mine;
    }

    const Check check_;
    const Turn outer_;
    Clock::time_point next_{};  // look at the clock: short calls never come to that
    std::atomic<bool> stop_{false};
    std::atomic<int64_t> room_;  // bytes of work space that the call may still take

    [[gnu::noinline]] static void look() {
        Turn& mine = turn();
        mine.left = kSteps;
        if (!mine.watch) return;
        if (mine.watch->stop_.load(std::memory_order_relaxed)) throw Stopped();
        if (!mine.made_it) return;
        const auto now = Clock::now();
        if (mine.watch->next_ == Clock::time_point{}) mine.watch->next_ = now + kInterval;
        if (now >= mine.watch->next_) mine.watch->ask();
    }

   public:
    static constexpr int64_t kAnyRoom = std::numeric_limits<int64_t>::max();

    explicit Watch(Check check, int64_t room = kAnyRoom) : check_(check), outer_(turn()), room_(room) {
        turn() = {this, true, kSteps};
    }
    ~Watch() { turn() = outer_; }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    // The watch of this thread, null if there is none; a thread that helps takes that of the call.
    static Watch* current() { return turn().watch; }
    static void help(Watch* watch) { turn() = {watch, false, kSteps}; }

    // Before work space of that many bytes is made, which a worker keeps for the next call.
    static void reserve(int64_t bytes) {
        Watch* const watch = current();
        if (watch && watch->room_.fetch_sub(bytes) < bytes) throw OutOfRoom();
    }

    // Run the check now; only in the thread that made the call.
    void ask() {
        try {
            check_();
        } catch (...) {
            stop_.store(true, std::memory_order_relaxed);
            throw;
        }
        next_ = Clock::now() + kInterval;
    }

    static LOGSUPER_INLINE void poll(int64_t steps) {
        if ((turn().left -= steps) <= 0) look();
    }
};

LOGSUPER_INLINE void poll(int64_t steps) { Watch::poll(steps); }

// body(i) for 0 <= i < n, of so many steps each: too short for a poll each, which comes with blocks.
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

// For steps of a search that are short as a rule: polls if there were many.
LOGSUPER_INLINE void poll_if_many(int64_t steps) {
    if (steps > 64) poll(16 * steps);
}

// For loops over the rows of an image: polls once in 64.
LOGSUPER_INLINE void poll_at_row(int64_t row, int64_t steps) {
    if (!(row & 63)) poll(steps << 6);
}

}  // namespace LOGSUPER_ISA
