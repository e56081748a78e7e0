// The Python face of the conditional probabilities.
#pragma once

#include <cmath>

#include "bindings.hpp"
#include "conditional.hpp"

namespace LOGSUPER_ISA {

inline Perturbations check_perturbations(const Array<const double>& theta, const Array<const uint8_t>& labels,
                                         const Array<const uint64_t>& numbers, uint64_t key,
                                         uint32_t first_sample, int rounds, int threads,
                                         const Array<double>& sums) {
    require(theta.ndim() == 2 && labels.ndim() == 3 && numbers.ndim() == 1 && sums.ndim() == 2,
            "wrong number of axes");
    Perturbations p;
    p.problems = length(theta, 0);
    p.nodes = length(theta, 1);
    p.samples = length(labels, 1);
    require(length(labels, 0) == p.problems && length(labels, 2) == p.nodes, "labels has the wrong shape");
    require(length(numbers, 0) == p.problems, "numbers has the wrong length");
    require(length(sums, 0) == p.problems && length(sums, 1) == p.nodes, "sums has the wrong shape");
    require(0 <= rounds && rounds <= 1 << 20, "rounds must be 0 to 2^20");
    require(threads >= 1, "threads must be >= 1");
    for (size_t i = 0; i < theta.size(); ++i) require(!std::isnan(theta.data()[i]), "theta has a NaN");
    p.theta = theta.data();
    p.labels = labels.data();
    p.numbers = numbers.data();
    p.key = key;
    p.first_sample = first_sample;
    p.rounds = rounds;
    p.sums = sums.data();
    return p;
}

inline bool check_weights(const Array<const double>& weights, int64_t problems) {
    require(length(weights, 0) == 1 || length(weights, 0) == problems, "weights has the wrong length");
    require(finite_and_nonnegative(weights.data(), weights.size()), "weights must be finite and >= 0");
    return length(weights, 0) == 1;
}

template <class Job>
void run_conditional(const Job& job, int threads) {
    const Computing computing;
    run_team<typename Job::Scratch>(
        job.units(), threads, [&](typename Job::Scratch& scratch, int64_t unit) { job.run(scratch, unit); });
}

// Single precision where sums of weights keep three digits behind the point in it.
inline bool fits_single(const Array<const double>& weights) {
    for (size_t i = 0; i < weights.size(); ++i)
        if (weights.data()[i] > 1e3) return false;
    return true;
}

inline void conditional_grid(Array<const int64_t> offsets, Array<const double> weights,
                             Array<const double> theta, Array<const uint8_t> labels,
                             Array<const uint64_t> numbers, uint64_t key, uint32_t first_sample, int rounds,
                             int threads, Array<double> sums) {
    const Perturbations p =
        check_perturbations(theta, labels, numbers, key, first_sample, rounds, threads, sums);
    require(offsets.ndim() == 1 && weights.ndim() == 3, "wrong number of axes");
    require(length(weights, 1) == length(offsets, 0) && length(weights, 2) == p.nodes,
            "weights has the wrong shape");
    for (int64_t o = 0; o < length(offsets, 0); ++o)
        require(0 < offsets.data()[o] && offsets.data()[o] < p.nodes, "an offset is out of range");
    const bool shared = check_weights(weights, p.problems);
    const std::vector<int64_t> list(offsets.data(), offsets.data() + offsets.size());
    if (fits_single(weights))
        run_conditional(GridConditional<float>(p, list, weights.data(), shared), threads);
    else
        run_conditional(GridConditional<double>(p, list, weights.data(), shared), threads);
}

inline void conditional_graph(Array<const int64_t> edges, Array<const double> weights,
                              Array<const double> theta, Array<const uint8_t> labels,
                              Array<const uint64_t> numbers, uint64_t key, uint32_t first_sample, int rounds,
                              int threads, Array<double> sums) {
    const Perturbations p =
        check_perturbations(theta, labels, numbers, key, first_sample, rounds, threads, sums);
    require(edges.ndim() == 2 && length(edges, 1) == 2 && weights.ndim() == 2, "wrong number of axes");
    require(length(weights, 1) == length(edges, 0), "weights has the wrong shape");
    for (size_t k = 0; k < edges.size(); ++k)
        require(0 <= edges.data()[k] && edges.data()[k] < p.nodes, "an edge leads nowhere");
    const bool shared = check_weights(weights, p.problems);
    const int64_t count = length(edges, 0);
    if (fits_single(weights))
        run_conditional(GraphConditional<float>(p, count, edges.data(), weights.data(), shared), threads);
    else
        run_conditional(GraphConditional<double>(p, count, edges.data(), weights.data(), shared), threads);
}

inline void bind_conditional(nb::module_& m) {
    m.def("conditional_grid", &conditional_grid, nb::arg("offsets"), nb::arg("weights"), nb::arg("theta"),
          nb::arg("labels"), nb::arg("numbers"), nb::arg("key"), nb::arg("first_sample"), nb::arg("rounds"),
          nb::arg("threads"), nb::arg("sums").noconvert());
    m.def("conditional_graph", &conditional_graph, nb::arg("edges"), nb::arg("weights"), nb::arg("theta"),
          nb::arg("labels"), nb::arg("numbers"), nb::arg("key"), nb::arg("first_sample"), nb::arg("rounds"),
          nb::arg("threads"), nb::arg("sums").noconvert());
}

}  // namespace LOGSUPER_ISA
