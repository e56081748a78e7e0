// A team of threads over numbered tasks; which thread does a task never changes its result.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace LOGSUPER_ISA {

// Run job(scratch, task) for all tasks, every thread with a scratch of its own, which start() makes. The
// first exception is thrown again by the caller.
template <class Start, class Job>
void run_team(int64_t tasks, int threads, const Start& start, const Job& job) {
    std::atomic<int64_t> next{0};
    std::exception_ptr failure;
    std::mutex failure_mutex;
    const auto work = [&] {
        try {
            auto scratch = start();
            for (int64_t task; (task = next.fetch_add(1)) < tasks;) job(scratch, task);
        } catch (...) {
            std::lock_guard<std::mutex> lock(failure_mutex);
            if (!failure) failure = std::current_exception();
            next.store(tasks);
        }
    };
    const int64_t processors = std::max(1u, std::thread::hardware_concurrency());
    const int64_t extra = std::min({static_cast<int64_t>(threads), processors, tasks}) - 1;
    std::vector<std::thread> team;
    try {
        if (extra > 0) team.reserve(static_cast<size_t>(extra));
        for (int64_t i = 0; i < extra; ++i) team.emplace_back(work);
    } catch (...) {
        // No more threads to be had: the ones there are do the work.
    }
    work();
    for (auto& thread : team) thread.join();
    if (failure) std::rethrow_exception(failure);
}

template <class Scratch, class Job>
void run_team(int64_t tasks, int threads, const Job& job) {
    run_team(tasks, threads, [] { return Scratch(); }, job);
}

}  // namespace LOGSUPER_ISA
