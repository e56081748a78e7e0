// Batches of problems on one structure: threads over problems and samples. Results do not depend on the
// number of threads.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "noise.hpp"
#include "structure.hpp"
#include "team.hpp"

namespace LOGSUPER_ISA {

struct Batch {
    int64_t problems = 0;
    const double* theta = nullptr;  // (problems or 1, elements)
    bool theta_shared = false;
    const double* alpha = nullptr;  // (problems or 1, functions)
    bool alpha_shared = false;
    const double* factors = nullptr;  // null, or (problems or 1, [functions,] edges)
    bool factors_shared = false, factors_per_function = false;
    bool wide = false;
    Tie tie = Tie::kMinimal;
    int64_t n_shifted = 0;             // of few nodes: what is subtracted from theta there
    const int64_t* shifted = nullptr;  // (n_shifted,)
    const double* shift = nullptr;     // (problems or 1, n_shifted)
    bool shift_shared = false;
    int64_t outputs = 0;  // number of labels to return: those of the first elements
    int threads = 1;
    double* precision = nullptr;  // null, or (problems, 2): see BatchJob::report

    bool same_weights() const { return alpha_shared && (!factors || factors_shared); }
};

// Idle workers of a structure, kept so that only the first solves allocate.
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
    int64_t held_bytes() {
        std::lock_guard<std::mutex> lock(mutex_);
        int64_t bytes = 0;
        for (const auto& worker : idle_) bytes += worker->held_bytes();
        return bytes;
    }
    void give_back(std::unique_ptr<Worker> worker) {
        std::lock_guard<std::mutex> lock(mutex_);
        idle_.push_back(std::move(worker));
    }
};

// Runs job.run(worker, state, unit) for the units 0 .. job.units() - 1.
template <class Job>
void run_units(const Structure& structure, WorkerPool& pool, int threads, const Job& job) {
    // A worker that was interrupted by an exception is not used again.
    struct Lease {
        WorkerPool& pool;
        std::unique_ptr<Worker> worker;
        typename Job::State state;
        bool busy = false;
        Lease(WorkerPool& from, const Structure& structure) : pool(from), worker(from.take(structure)) {}
        ~Lease() {
            if (!busy) pool.give_back(std::move(worker));
        }
    };
    run_team(
        job.units(), threads, [&] { return std::make_unique<Lease>(pool, structure); },
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
    const int64_t nodes_, elements_, functions_;

   public:
    struct State {
        int64_t weights_of = -1;  // the problem whose weights the worker has
        std::vector<double> field, whole;
        std::vector<uint8_t> labels, drawn;
        std::vector<uint32_t> counts;
    };
    BatchJob(const Structure& structure, const Batch& batch)
        : structure_(structure),
          batch_(batch),
          nodes_(structure.nodes()),
          elements_(structure.elements()),
          functions_(structure.functions()) {}

    int64_t units() const { return batch_.problems; }

   protected:
    const double* theta(int64_t m) const { return batch_.theta + (batch_.theta_shared ? 0 : m * elements_); }
    // The field of all nodes of problem m, given that of the elements.
    const double* on_nodes(int64_t m, const double* field, State& state) const {
        const auto& runs = structure_.runs();
        if (runs.empty() && !batch_.n_shifted) return field;
        if (state.whole.empty()) state.whole.assign(nodes_, -std::numeric_limits<double>::infinity());
        double* const whole = state.whole.data();
        if (runs.empty()) std::copy_n(field, nodes_, whole);
        for (const auto& run : runs) std::copy_n(field + run.element, run.count, whole + run.node);
        const double* const shift = batch_.shift + (batch_.shift_shared ? 0 : m * batch_.n_shifted);
        for (int64_t j = 0; j < batch_.n_shifted; ++j) whole[batch_.shifted[j]] -= shift[j];
        return whole;
    }
    // Writes the labels of the first elements.
    void write_labels(const Worker& worker, State& state, uint8_t* out) const {
        const auto& runs = structure_.runs();
        if (runs.empty() && batch_.outputs == nodes_) return worker.labels(out);
        state.labels.resize(nodes_);
        worker.labels(state.labels.data());
        if (runs.empty()) std::copy_n(state.labels.data(), batch_.outputs, out);
        for (const auto& run : runs) {
            const int64_t count = std::min(run.count, batch_.outputs - run.element);
            if (count > 0) std::copy_n(state.labels.data() + run.node, count, out + run.element);
        }
    }
    const double* alpha(int64_t m) const { return batch_.alpha + (batch_.alpha_shared ? 0 : m * functions_); }
    ProblemWeights weights(int64_t m) const {
        const int64_t rows = batch_.factors_per_function ? functions_ : 1;
        const bool own = batch_.factors && !batch_.factors_shared;
        return {alpha(m), batch_.factors + (own ? m * structure_.edges() * rows : 0),
                batch_.factors_per_function};
    }
    void set_weights(Worker& worker, State& state, int64_t m) const {
        const int64_t which = batch_.same_weights() ? 0 : m;
        if (state.weights_of == which) return;
        worker.set_weights(weights(m), batch_.wide);
        state.weights_of = which;
    }
    // Reports the precision of the solves of problem m: the largest unit, and whether any was too coarse.
    void report(int64_t m, Precision found) const {
        if (!batch_.precision) return;
        double* const row = batch_.precision + 2 * m;
        row[0] = std::max(row[0], found.quantum);
        row[1] = std::max(row[1], found.coarse ? 1.0 : 0.0);
    }
    double value(int64_t m, const Worker& worker, const double* field, const double* stats) const {
        double cut = 0;
        for (int64_t k = 0; k < functions_; ++k) cut += alpha(m)[k] * stats[k];
        return worker.dot(field) - cut;
    }
};

// One problem on a part of a larger grid: which labels do not depend on the nodes around it.
struct TileProblem {
    const double* theta = nullptr;    // (nodes,)
    const double* factors = nullptr;  // null, or (edges,)
    int64_t n_ring = 0;
    const int64_t* ring = nullptr;  // (n_ring,): nodes that are set to 0 first, then to 1
    double degree = 0;              // of the larger grid
    bool wide = false;
    Tie tie = Tie::kMinimal;
    uint8_t* labels = nullptr;  // (nodes,): 0, 1, or 2 where the two solutions differ
};

class TileJob {
    const Structure& structure_;
    const TileProblem& problem_;

   public:
    struct State {
        std::vector<double> field;
        std::vector<uint8_t> labels;
    };
    TileJob(const Structure& structure, const TileProblem& problem)
        : structure_(structure), problem_(problem) {}
    int64_t units() const { return 1; }

    void run(Worker& worker, State& state, int64_t) const {
        const int64_t n = structure_.nodes();
        const std::vector<double> alpha(structure_.functions(), 1.0);
        worker.set_weights({alpha.data(), problem_.factors, false, problem_.degree}, problem_.wide);
        state.field.assign(problem_.theta, problem_.theta + n);
        solve(worker, state, -std::numeric_limits<double>::infinity(), problem_.labels);
        if (!problem_.n_ring) return;
        state.labels.resize(n);
        solve(worker, state, std::numeric_limits<double>::infinity(), state.labels.data());
        for (int64_t i = 0; i < n; ++i)
            problem_.labels[i] |= static_cast<uint8_t>((problem_.labels[i] ^ state.labels[i]) << 1);
        for (int64_t i = 0; i < n; ++i) problem_.labels[i] -= problem_.labels[i] == 3;
    }

   private:
    void solve(Worker& worker, State& state, double outside, uint8_t* labels) const {
        for (int64_t j = 0; j < problem_.n_ring; ++j) state.field[problem_.ring[j]] = outside;
        worker.solve(state.field.data(), problem_.tie);
        poll(4 * structure_.nodes());
        worker.labels(labels);
    }
};

struct MaximizeOutputs {
    uint8_t* labels = nullptr;  // (problems, outputs)
    double* values = nullptr;   // (problems,)
    double* stats = nullptr;    // (problems, functions)
};

// Labels, values and statistics of every problem.
class MaximizeJob : public BatchJob {
    const MaximizeOutputs out_;

   public:
    MaximizeJob(const Structure& s, const Batch& b, const MaximizeOutputs& out) : BatchJob(s, b), out_(out) {}

    void run(Worker& worker, State& state, int64_t m) const {
        set_weights(worker, state, m);
        const double* const field = on_nodes(m, theta(m), state);
        worker.solve(field, batch_.tie);
        poll(4 * nodes_);
        report(m, worker.precision());
        write_labels(worker, state, out_.labels + m * batch_.outputs);
        double* stats = out_.stats + m * functions_;
        worker.statistics(stats);
        out_.values[m] = value(m, worker, field, stats);
    }
};

struct PerturbNoise {
    int64_t samples = 0;
    int64_t noisy = 0;  // number of elements with noise: the first ones
    uint64_t key = 0;
    const uint64_t* numbers = nullptr;  // (problems,): which stream each problem has
    uint32_t first_sample = 0;
};

struct PerturbOutputs {
    uint32_t* counts = nullptr;  // (problems, outputs): how often each label is 1
    double* values = nullptr;    // (problems, samples)
    double* stats = nullptr;     // (problems, samples, functions)
    uint8_t* labels = nullptr;   // null, or (problems, samples, outputs)
};

// Maximisers of logistic perturbations of each problem's field.
class PerturbJob : public BatchJob {
    static constexpr int64_t kBlock = 8;  // samples per unit
    const PerturbNoise noise_;
    const PerturbOutputs out_;
    mutable std::mutex mutex_;

    int64_t blocks() const { return (noise_.samples + kBlock - 1) / kBlock; }

   public:
    PerturbJob(const Structure& s, const Batch& b, const PerturbNoise& noise, const PerturbOutputs& out)
        : BatchJob(s, b), noise_(noise), out_(out) {}

    int64_t units() const { return batch_.problems * blocks(); }

    void run(Worker& worker, State& state, int64_t unit) const {
        const int64_t m = unit / blocks(), first = unit % blocks() * kBlock;
        const int64_t last = std::min(noise_.samples, first + kBlock), outputs = batch_.outputs;
        set_weights(worker, state, m);
        state.field.resize(elements_);
        state.drawn.resize(outputs);
        state.counts.assign(outputs, 0);
        Precision coarsest;
        for (int64_t sample = first; sample < last; ++sample) {
            const uint32_t number = static_cast<uint32_t>(noise_.first_sample + sample);
            perturb_field({noise_.key, noise_.numbers[m], number}, theta(m), elements_, noise_.noisy,
                          state.field.data());
            const double* const field = on_nodes(m, state.field.data(), state);
            poll(4 * nodes_);
            worker.solve(field, batch_.tie);
            const Precision found = worker.precision();
            coarsest.quantum = std::max(coarsest.quantum, found.quantum);
            coarsest.coarse |= found.coarse;
            uint8_t* const labels = state.drawn.data();
            write_labels(worker, state, labels);
            const int64_t at = m * noise_.samples + sample;
            worker.statistics(out_.stats + at * functions_);
            out_.values[at] = value(m, worker, field, out_.stats + at * functions_);
            for (int64_t i = 0; i < outputs; ++i) state.counts[i] += labels[i];
            if (out_.labels) std::memcpy(out_.labels + at * outputs, labels, outputs);
        }
        poll(outputs);
        std::lock_guard<std::mutex> lock(mutex_);
        report(m, coarsest);
        uint32_t* const total = out_.counts + m * outputs;
        for (int64_t i = 0; i < outputs; ++i) total[i] += state.counts[i];
    }
};

struct MinNormOutputs {
    double* points = nullptr;   // (problems, nodes)
    double* gaps = nullptr;     // (problems,): duality gaps
    int64_t* levels = nullptr;  // (problems,): number of flows
};

class MinNormJob : public BatchJob {
    const MinNormOutputs out_;

   public:
    MinNormJob(const Structure& s, const Batch& b, const MinNormOutputs& out) : BatchJob(s, b), out_(out) {}

    void run(Worker& worker, State&, int64_t m) const {
        for (int64_t i = 0; i < nodes_; ++i)
            if (!std::isfinite(theta(m)[i])) refuse_nan();
        const ParametricResult result = worker.min_norm_point(weights(m), theta(m), out_.points + m * nodes_);
        out_.gaps[m] = result.gap;
        out_.levels[m] = result.levels;
    }
};

}  // namespace LOGSUPER_ISA
