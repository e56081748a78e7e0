// Batches: threads over problems (and samples), every result independent of their number.
#pragma once

#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "noise.hpp"
#include "structure.hpp"
#include "team.hpp"

namespace LOGSUPER_ISA {

struct Batch {
    int64_t problems = 0;
    const double* theta = nullptr;  // (problems or 1, nodes)
    bool theta_shared = false;
    const double* alpha = nullptr;  // (problems or 1, functions)
    bool alpha_shared = false;
    const double* factors = nullptr;  // null, or (problems or 1, [functions,] edges)
    bool factors_shared = false, factors_per_function = false;
    bool wide = false;
    Tie tie = Tie::kMinimal;
    int64_t outputs = 0;  // labels wanted: the first `outputs` nodes
    int threads = 1;
    double* precision = nullptr;  // null, or (problems, 2): see BatchJob::note

    bool same_weights() const { return alpha_shared && (!factors || factors_shared); }
};

// Workers of a structure, handed to threads and taken back, so that no solve allocates.
class WorkerPool {
    std::mutex mutex_;
    std::vector<std::unique_ptr<Worker>> idle_;

   public:
    std::unique_ptr<Worker> take(const Structure& structure) {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (!idle_.empty()) {
                auto worker = std::move(idle_.back());
                idle_.pop_back();
                return worker;
            }
        }
        return structure.worker();
    }
    int64_t held() {
        std::lock_guard<std::mutex> lock(mutex_);
        int64_t bytes = 0;
        for (const auto& worker : idle_) bytes += worker->held();
        return bytes;
    }
    void give(std::unique_ptr<Worker> worker) {
        std::lock_guard<std::mutex> lock(mutex_);
        idle_.push_back(std::move(worker));
    }
};

// Run job.run(worker, state, unit) for all units; the first exception is thrown again by the caller.
template <class Job>
void run_units(const Structure& structure, WorkerPool& pool, int64_t units, int threads, Job&& job) {
    // A worker that an exception has left in the middle of something is not handed out again.
    struct Lease {
        WorkerPool& pool;
        std::unique_ptr<Worker> worker;
        typename std::decay_t<Job>::State state;
        bool busy = false;
        Lease(WorkerPool& from, const Structure& structure, typename std::decay_t<Job>::State start)
            : pool(from), worker(from.take(structure)), state(std::move(start)) {}
        ~Lease() {
            if (!busy) pool.give(std::move(worker));
        }
    };
    run_team(
        units, threads, [&] { return std::make_unique<Lease>(pool, structure, job.start()); },
        [&](std::unique_ptr<Lease>& lease, int64_t unit) {
            lease->busy = true;
            job.run(*lease->worker, lease->state, unit);
            lease->busy = false;
        });
}

class BatchJob {
   protected:
    const Structure& structure_;
    const Batch& batch_;
    const int64_t nodes_, functions_;

   public:
    struct State {
        int64_t weights_of = -1;
        std::vector<double> field;
        std::vector<uint8_t> labels;
        std::vector<uint32_t> counts;
    };
    BatchJob(const Structure& structure, const Batch& batch)
        : structure_(structure),
          batch_(batch),
          nodes_(structure.nodes()),
          functions_(structure.functions()) {}

    State start() const { return {}; }

   protected:
    const double* theta(int64_t m) const { return batch_.theta + (batch_.theta_shared ? 0 : m * nodes_); }
    const double* alpha(int64_t m) const { return batch_.alpha + (batch_.alpha_shared ? 0 : m * functions_); }
    const double* factors(int64_t m) const {
        if (!batch_.factors || batch_.factors_shared) return batch_.factors;
        return batch_.factors + m * structure_.edges() * (batch_.factors_per_function ? functions_ : 1);
    }
    void set_weights(Worker& worker, State& state, int64_t m) const {
        const int64_t which = batch_.same_weights() ? 0 : m;
        if (state.weights_of == which) return;
        worker.set_weights(alpha(m), factors(m), batch_.factors_per_function, batch_.wide);
        state.weights_of = which;
    }
    // What the caller is told of the integers of problem m: the largest unit, and whether any was
    // too coarse.
    void note(int64_t m, Precision found) const {
        if (!batch_.precision) return;
        double* const told = batch_.precision + 2 * m;
        told[0] = std::max(told[0], found.quantum);
        told[1] = std::max(told[1], found.coarse ? 1.0 : 0.0);
    }
    double value(int64_t m, const Worker& worker, const double* field, const double* stats) const {
        double cut = 0;
        for (int64_t k = 0; k < functions_; ++k) cut += alpha(m)[k] * stats[k];
        return worker.dot(field) - cut;
    }
};

// y, values and statistics of every problem.
class MaximizeJob : public BatchJob {
    uint8_t* const y_;
    double *const values_, *const stats_;

   public:
    MaximizeJob(const Structure& s, const Batch& b, uint8_t* y, double* values, double* stats)
        : BatchJob(s, b), y_(y), values_(values), stats_(stats) {}

    void run(Worker& worker, State& state, int64_t m) const {
        set_weights(worker, state, m);
        worker.solve(theta(m), batch_.tie);
        poll(4 * nodes_);
        note(m, worker.precision());
        uint8_t* labels = y_ + m * batch_.outputs;
        if (batch_.outputs < nodes_) {
            state.labels.resize(nodes_);
            worker.labels(state.labels.data());
            std::memcpy(labels, state.labels.data(), batch_.outputs);
        } else {
            worker.labels(labels);
        }
        double* stats = stats_ + m * functions_;
        worker.statistics(stats);
        values_[m] = value(m, worker, theta(m), stats);
    }
};

// The same for `samples` logistic perturbations of each problem's field, reduced to counts of y.
class PerturbJob : public BatchJob {
    const int64_t samples_, noisy_;
    const uint64_t key_;
    const uint64_t* const numbers_;  // of the problems, for their noise
    const uint32_t first_sample_;
    uint32_t* const counts_;
    double *const values_, *const stats_;
    uint8_t* const y_;  // null unless the samples themselves are wanted
    mutable std::mutex mutex_;

   public:
    static constexpr int64_t kBlock = 8;  // samples a unit

    PerturbJob(const Structure& s, const Batch& b, int64_t samples, int64_t noisy, uint64_t key,
               const uint64_t* numbers, uint32_t first_sample, uint32_t* counts, double* values,
               double* stats, uint8_t* y)
        : BatchJob(s, b),
          samples_(samples),
          noisy_(noisy),
          key_(key),
          numbers_(numbers),
          first_sample_(first_sample),
          counts_(counts),
          values_(values),
          stats_(stats),
          y_(y) {}

    int64_t blocks() const { return (samples_ + kBlock - 1) / kBlock; }

    void run(Worker& worker, State& state, int64_t unit) const {
        const int64_t m = unit / blocks(), first = unit % blocks() * kBlock;
        const int64_t last = std::min(samples_, first + kBlock), outputs = batch_.outputs;
        set_weights(worker, state, m);
        state.field.resize(nodes_);
        state.labels.resize(nodes_);
        state.counts.assign(outputs, 0);
        Precision coarsest;
        for (int64_t sample = first; sample < last; ++sample) {
            perturb_field(theta(m), nodes_, noisy_, key_, numbers_[m],
                          static_cast<uint32_t>(first_sample_ + sample), state.field.data());
            poll(4 * nodes_);
            worker.solve(state.field.data(), batch_.tie);
            const Precision found = worker.precision();
            coarsest.quantum = std::max(coarsest.quantum, found.quantum);
            coarsest.coarse |= found.coarse;
            uint8_t* const labels = state.labels.data();
            worker.labels(labels);
            const int64_t at = m * samples_ + sample;
            worker.statistics(stats_ + at * functions_);
            values_[at] = value(m, worker, state.field.data(), stats_ + at * functions_);
            for (int64_t i = 0; i < outputs; ++i) state.counts[i] += labels[i];
            if (y_) std::memcpy(y_ + at * outputs, labels, outputs);
        }
        poll(outputs);
        std::lock_guard<std::mutex> lock(mutex_);
        note(m, coarsest);
        uint32_t* const total = counts_ + m * outputs;
        for (int64_t i = 0; i < outputs; ++i) total[i] += state.counts[i];
    }
};

class MinNormJob : public BatchJob {
    double *const s_, *const gaps_;
    int64_t* const levels_;

   public:
    MinNormJob(const Structure& s, const Batch& b, double* points, double* gaps, int64_t* levels)
        : BatchJob(s, b), s_(points), gaps_(gaps), levels_(levels) {}

    void run(Worker& worker, State&, int64_t m) const {
        for (int64_t i = 0; i < nodes_; ++i)
            if (!std::isfinite(theta(m)[i])) refuse_nan();
        const ParametricResult result = worker.min_norm_point(
            alpha(m), factors(m), batch_.factors_per_function, theta(m), s_ + m * nodes_);
        gaps_[m] = result.gap;
        levels_[m] = result.levels;
    }
};

}  // namespace LOGSUPER_ISA
