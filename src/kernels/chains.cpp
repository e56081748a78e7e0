// Python bindings of the Markov chains.
#include "chains.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "bindings.hpp"
#include "chains_clusters.hpp"
#include "chains_terms.hpp"

namespace LOGSUPER_ISA {
namespace {

void require_times(int64_t first, int64_t count, int64_t step) {
    constexpr int64_t kTimes = int64_t{1} << 32;
    require(0 <= first && first < kTimes && 0 <= count && count <= kTimes && (step == 1 || step == -1),
            "no such times");
    const int64_t last = first + step * std::max<int64_t>(count - 1, 0);
    require(0 <= last && last < kTimes, "times must lie in [0, 2^32)");
}

void require_batch(int64_t problems, int64_t n, const Array<const double>& theta,
                   const Array<const uint64_t>& numbers, int threads) {
    require(theta.ndim() == 2 && length(theta, 1) == n, "theta has the wrong shape");
    require(length(theta, 0) == 1 || length(theta, 0) == problems, "theta has the wrong length");
    require(numbers.ndim() == 1 && length(numbers, 0) == problems, "problems has the wrong length");
    require_threads(threads);
}

// Sweeps over the chains (problems, 1 or 2, n) of every problem, in place.
void run_scan(const Scan& scan, Array<uint8_t> states, Array<const double> theta, double scale, uint64_t key,
              Array<const uint64_t> problems, int64_t first, int64_t count, int64_t step, int threads,
              nb::handle beat) {
    const int64_t n = scan.size();
    require(states.ndim() == 3 && length(states, 2) == n, "states has the wrong shape");
    require(length(states, 1) == 1 || length(states, 1) == 2, "a problem has one or two chains");
    require_batch(length(states, 0), n, theta, problems, threads);
    require_times(first, count, step);
    const int chains = static_cast<int>(length(states, 1));
    const int64_t row = length(theta, 0) == 1 ? 0 : n;
    const Sweeps sweeps{scale, key, first, count, step};
    const Computing computing(CallMonitor::kUnlimited, beat);
    run_team<ScanScratch>(length(states, 0), threads, [&](ScanScratch& scratch, int64_t m) {
        scan.run(scratch,
                 {states.data() + m * chains * n, chains, theta.data() + m * row, problems.data()[m]},
                 sweeps);
    });
}

void move_clusters(const Clusters& clusters, Array<uint8_t> states, Array<const double> theta, uint64_t key,
                   Array<const uint64_t> problems, int64_t time, int threads) {
    const int64_t n = clusters.size();
    require(states.ndim() == 2 && length(states, 1) == n, "states has the wrong shape");
    require_batch(length(states, 0), n, theta, problems, threads);
    require_times(time, 2, 1);
    const int64_t row = length(theta, 0) == 1 ? 0 : n;
    const Computing computing;
    run_team<ClusterScratch>(length(states, 0), threads, [&](ClusterScratch& scratch, int64_t m) {
        clusters.move(scratch, states.data() + m * n, theta.data() + m * row,
                      {key, problems.data()[m], static_cast<uint32_t>(time)});
    });
}

constexpr int64_t kMostElements = int64_t{1} << 30;

Scan* make_grid_scan(Array<const double> across, Array<const double> down) {
    require(across.ndim() == 2 && down.ndim() == 2, "weights must have two axes");
    const int64_t rows = length(across, 0), columns = length(down, 1);
    require(rows >= 1 && columns >= 1 && rows < kMostElements && columns < kMostElements &&
                rows * columns < kMostElements,
            "the grid must have 1 to 2^30 elements");
    require(length(across, 1) == columns - 1 && length(down, 0) == rows - 1, "weights have the wrong shape");
    require(finite_and_nonnegative(across.data(), across.size()) &&
                finite_and_nonnegative(down.data(), down.size()),
            "weights must be finite and >= 0");
    const Computing computing;
    return new GridScan(rows, columns, across.data(), down.data());
}

// Position p of the scan is element order[p]; its neighbours are positions too.
Scan* make_graph_scan(Array<const int64_t> order, Array<const int64_t> start, Array<const int64_t> neighbour,
                      Array<const double> weight) {
    require(order.ndim() == 1 && start.ndim() == 1 && neighbour.ndim() == 1 && weight.ndim() == 1,
            "wrong number of axes");
    const int64_t n = length(order, 0), ends = length(neighbour, 0);
    require(n >= 1 && n < kMostElements, "the graph must have 1 to 2^30 elements");
    require(length(start, 0) == n + 1 && length(weight, 0) == ends, "an array has the wrong length");
    std::vector<bool> seen(n);
    for (int64_t p = 0; p < n; ++p) {
        const int64_t element = order.data()[p];
        require(0 <= element && element < n && !seen[element], "order must be a permutation");
        seen[element] = true;
        require(start.data()[p] <= start.data()[p + 1], "start must not decrease");
    }
    require(start.data()[0] == 0 && start.data()[n] == ends, "start does not cover the neighbours");
    for (int64_t k = 0; k < ends; ++k)
        require(0 <= neighbour.data()[k] && neighbour.data()[k] < n, "no such neighbour");
    require(finite_and_nonnegative(weight.data(), weight.size()), "weights must be finite and >= 0");
    return new GraphScan({{order.data(), order.data() + n},
                          {start.data(), start.data() + n + 1},
                          {neighbour.data(), neighbour.data() + ends},
                          {weight.data(), weight.data() + ends}});
}

Clusters* make_clusters(int64_t n, Array<const int64_t> edges, Array<const double> threshold) {
    require(n >= 1 && n < kMostElements, "the graph must have 1 to 2^30 elements");
    require(edges.ndim() == 2 && length(edges, 1) == 2, "edges has the wrong shape");
    require(threshold.ndim() == 1 && length(threshold, 0) == length(edges, 0),
            "threshold has the wrong length");
    for (size_t k = 0; k < edges.size(); ++k)
        require(0 <= edges.data()[k] && edges.data()[k] < n, "no such element");
    return new Clusters(n, std::vector<int32_t>(edges.data(), edges.data() + edges.size()),
                        std::vector<double>(threshold.data(), threshold.data() + threshold.size()));
}

TermScan* make_term_scan(int64_t n) {
    require(n >= 1 && n < kMostElements, "there must be 1 to 2^30 elements");
    return new TermScan(n);
}

void require_weight(double weight) {
    require(finite_and_nonnegative(&weight, 1), "the weight must be finite and >= 0");
}

void require_starts(const Array<const int64_t>& start, int64_t size, const char* what) {
    require(start.ndim() == 1 && length(start, 0) >= 1 && start.data()[0] == 0, what);
    for (int64_t i = 0; i + 1 < length(start, 0); ++i) require(start.data()[i] <= start.data()[i + 1], what);
    require(start.data()[length(start, 0) - 1] == size, what);
}

void add_facilities(TermScan& scan, double weight, Array<const double> benefits) {
    require_weight(weight);
    require(benefits.ndim() == 2 && length(benefits, 1) == scan.size(), "benefits has the wrong shape");
    require(finite_and_nonnegative(benefits.data(), benefits.size()), "benefits must be finite and >= 0");
    scan.add(weight, std::make_unique<FacilityTerm>(scan.size(), length(benefits, 0), benefits.data()));
}

// Element d is in the groups group[start[d]] .. with those weights. The profile of group g goes through
// (point, value) at piece[g] .. piece[g + 1], and is constant beyond; its first point is (0, 0).
void add_groups(TermScan& scan, double weight, Array<const int64_t> start, Array<const int64_t> group,
                Array<const double> weights, Array<const int64_t> piece, Array<const double> point,
                Array<const double> value) {
    require_weight(weight);
    require(group.ndim() == 1 && weights.ndim() == 1 && point.ndim() == 1 && value.ndim() == 1,
            "wrong number of axes");
    const int64_t entries = length(group, 0), points = length(point, 0);
    require(length(weights, 0) == entries && length(value, 0) == points, "an array has the wrong length");
    require_starts(start, entries, "start must not decrease, from 0 to the number of entries");
    require_starts(piece, points, "piece must not decrease, from 0 to the number of points");
    require(length(start, 0) == scan.size() + 1, "start has the wrong length");
    const int64_t groups = length(piece, 0) - 1;
    for (int64_t e = 0; e < entries; ++e)
        require(0 <= group.data()[e] && group.data()[e] < groups, "no such group");
    require(finite_and_nonnegative(weights.data(), weights.size()), "weights must be finite and >= 0");
    require(finite_and_nonnegative(point.data(), point.size()), "points must be finite and >= 0");
    require(finite(value.data(), value.size()), "values must be finite");
    for (int64_t g = 0; g < groups; ++g) {
        const int64_t p = piece.data()[g], last = piece.data()[g + 1];
        require(p < last && point.data()[p] == 0 && value.data()[p] == 0, "a profile must begin at (0, 0)");
        for (int64_t q = p; q + 1 < last; ++q)
            require(point.data()[q] < point.data()[q + 1], "the points of a profile must increase");
    }
    const auto copy = [](const auto& array) {
        return std::vector(array.data(), array.data() + array.size());
    };
    scan.add(weight, std::make_unique<GroupTerm>(Groups{copy(start), copy(group), copy(weights), copy(piece),
                                                        copy(point), copy(value)}));
}

// log det of the kernel on the elements that are on, or on those that are off.
void add_determinant(TermScan& scan, double weight, Array<const double> kernel, bool on) {
    require_weight(weight);
    const int64_t n = scan.size();
    require(has_shape(kernel, {n, n}), "the kernel has the wrong shape");
    require(finite(kernel.data(), kernel.size()), "the kernel is not finite");
    for (int64_t i = 0; i < n; ++i) require(kernel.data()[i * n + i] > 0, "a variance is not positive");
    scan.add(weight, std::make_unique<DeterminantTerm>(n, kernel.data(), on));
}

}  // namespace

void bind_chains(nb::module_& m) {
    nb::class_<Scan>(m, "Scan").def("run", &run_scan, nb::arg("states").noconvert(), nb::arg("theta"),
                                    nb::arg("scale"), nb::arg("key"), nb::arg("problems"), nb::arg("first"),
                                    nb::arg("count"), nb::arg("step"), nb::arg("threads"),
                                    nb::arg("beat") = nb::none());
    nb::class_<TermScan, Scan>(m, "TermScan")
        .def("add_facilities", &add_facilities, nb::arg("weight"), nb::arg("benefits"))
        .def("add_groups", &add_groups, nb::arg("weight"), nb::arg("start"), nb::arg("group"),
             nb::arg("weights"), nb::arg("piece"), nb::arg("point"), nb::arg("value"))
        .def("add_determinant", &add_determinant, nb::arg("weight"), nb::arg("kernel"), nb::arg("on"));
    m.def("term_scan", &make_term_scan, nb::arg("n"), nb::rv_policy::take_ownership);
    nb::class_<Clusters>(m, "Clusters")
        .def("move", &move_clusters, nb::arg("states").noconvert(), nb::arg("theta"), nb::arg("key"),
             nb::arg("problems"), nb::arg("time"), nb::arg("threads"));
    m.def("grid_scan", &make_grid_scan, nb::arg("across"), nb::arg("down"), nb::rv_policy::take_ownership);
    m.def("graph_scan", &make_graph_scan, nb::arg("order"), nb::arg("start"), nb::arg("neighbour"),
          nb::arg("weight"), nb::rv_policy::take_ownership);
    m.def("clusters", &make_clusters, nb::arg("n"), nb::arg("edges"), nb::arg("threshold"),
          nb::rv_policy::take_ownership);
}

}  // namespace LOGSUPER_ISA
