// A team of threads over numbered tasks; which thread does a task never changes its result.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "interrupt.hpp"

namespace LOGSUPER_ISA {

// No more threads than processors.
inline int64_t team_size(int64_t threads) {
    return std::min<int64_t>(threads, std::max(1u, std::thread::hardware_concurrency()));
}

// Run job(scratch, task) for all tasks, every thread with a scratch of its own, which start() makes. The
// first exception is thrown again by the caller.
template <class Start, class Job>
void run_team(int64_t tasks, int threads, const Start& start, const Job& job) {
    std::atomic<int64_t> next{0};
    std::exception_ptr failure;
    std::mutex mutex;  // of the failure and the number of those at work
    std::condition_variable one_less;
    int64_t at_work = 0;
    const auto fail = [&] {
        std::lock_guard<std::mutex> lock(mutex);
        if (!failure) failure = std::current_exception();
        next.store(tasks);
    };
    const auto work = [&] {
        try {
            auto scratch = start();
            for (int64_t task; (task = next.fetch_add(1)) < tasks;) job(scratch, task);
        } catch (const Stopped&) {
            // whoever has stopped the others says why
        } catch (...) {
            fail();
        }
    };
    Watch* const watch = Watch::current();
    const auto help = [&] {
        Watch::help(watch);
        work();
        std::lock_guard<std::mutex> lock(mutex);
        --at_work;
        one_less.notify_one();
    };
    const int64_t extra = std::min(team_size(threads), tasks) - 1;
    std::vector<std::thread> team;
    try {
        if (extra > 0) team.reserve(static_cast<size_t>(extra));
        for (int64_t i = 0; i < extra; ++i) {
            std::lock_guard<std::mutex> lock(mutex);
            team.emplace_back(help);
            ++at_work;
        }
    } catch (...) {
        // No more threads to be had: the ones there are do the work.
    }
    work();
    if (!team.empty()) {
        std::unique_lock<std::mutex> lock(mutex);
        while (!one_less.wait_for(lock, Watch::kInterval, [&] { return at_work == 0; })) {
            if (!watch) continue;
            lock.unlock();
            try {
                watch->ask();
            } catch (...) {
                fail();
            }
            lock.lock();
        }
    }
    for (auto& thread : team) thread.join();
    if (failure) std::rethrow_exception(failure);
}

template <class Scratch, class Job>
void run_team(int64_t tasks, int threads, const Job& job) {
    run_team(tasks, threads, [] { return Scratch(); }, job);
}

}  // namespace LOGSUPER_ISA
