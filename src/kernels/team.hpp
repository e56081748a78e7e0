// A team of threads over numbered tasks. Results never depend on which thread runs a task.
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

// Runs job(scratch, task) for all tasks; every thread has a scratch of its own, made by start(). The first
// exception of any thread is rethrown in the calling thread.
template <class Start, class Job>
void run_team(int64_t tasks, int threads, const Start& start, const Job& job) {
    std::atomic<int64_t> next{0};
    std::exception_ptr failure;
    std::mutex mutex;  // guards the failure and the number of busy helpers
    std::condition_variable helper_done;
    int64_t busy = 0;
    const auto fail = [&] {
        std::lock_guard<std::mutex> lock(mutex);
        if (!failure) failure = std::current_exception();
        next.store(tasks);
    };
    const auto work = [&] {
        try {
            auto scratch = start();
            for (int64_t task; (task = next.fetch_add(1)) < tasks;) job(scratch, task);
        } catch (const CallStopped&) {
            // the thread that stopped the others reports why
        } catch (...) {
            fail();
        }
    };
    CallMonitor* const monitor = CallMonitor::current();
    const auto help = [&] {
        CallMonitor::join(monitor);
        work();
        std::lock_guard<std::mutex> lock(mutex);
        --busy;
        helper_done.notify_one();
    };
    const int64_t extra = std::min(team_size(threads), tasks) - 1;
    std::vector<std::thread> team;
    try {
        if (extra > 0) team.reserve(static_cast<size_t>(extra));
        for (int64_t i = 0; i < extra; ++i) {
            std::lock_guard<std::mutex> lock(mutex);
            team.emplace_back(help);
            ++busy;
        }
    } catch (...) {
        // The system has no more threads: those that were started do the work.
    }
    work();
    if (!team.empty()) {
        std::unique_lock<std::mutex> lock(mutex);
        while (!helper_done.wait_for(lock, CallMonitor::kInterval, [&] { return busy == 0; })) {
            if (!monitor) continue;
            lock.unlock();
            try {
                monitor->check_now();
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
