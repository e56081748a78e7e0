// The Python face of the kernels. Shapes and ranges are checked here once more, so that not even a
// direct call can read or write outside an array; clear messages are the caller's business.
#include <nanobind/stl/pair.h>

#include <cmath>
#include <string>
#include <utility>

#include "batch.hpp"
#include "bindings.hpp"
#include "chains_bindings.hpp"
#include "conditional_bindings.hpp"
#include "filters_bindings.hpp"
#include "graph_structure.hpp"
#include "grid_structure.hpp"
#include "messages_bindings.hpp"
#include "strips_bindings.hpp"

namespace LOGSUPER_ISA {
namespace {

class Kernel {
    std::unique_ptr<Structure> structure_;
    WorkerPool pool_;

   public:
    explicit Kernel(std::unique_ptr<Structure> structure) : structure_(std::move(structure)) {}

    int64_t nodes() const { return structure_->nodes(); }
    int64_t edges() const { return structure_->edges(); }
    int functions() const { return structure_->functions(); }

    // Bytes that a call on so many threads will allocate, at least and at most.
    std::pair<int64_t, int64_t> workspace(int threads, bool wide, bool min_norm) {
        require_threads(threads);
        const Room one = structure_->room(wide, min_norm);
        const int64_t workers = team_size(threads), held = pool_.held();
        return {std::max<int64_t>(0, workers * one.least - held),
                std::max<int64_t>(0, workers * one.most - held)};
    }

    void maximize(Array<const double> theta, Array<const double> alpha, nb::object factors, bool maximal,
                  bool wide, int threads, Array<uint8_t> y, Array<double> values, Array<double> stats,
                  int64_t memory, nb::object precision) {
        require(y.ndim() == 2 && values.ndim() == 1 && stats.ndim() == 2, "wrong number of axes");
        Batch batch = check(length(y, 0), theta, alpha, factors, threads);
        batch.tie = maximal ? Tie::kMaximal : Tie::kMinimal;
        batch.wide = wide;
        batch.outputs = length(y, 1);
        require(batch.outputs <= nodes(), "y has too many columns");
        require(length(values, 0) == batch.problems, "values has the wrong length");
        require(length(stats, 0) == batch.problems && length(stats, 1) == functions(),
                "stats has the wrong shape");
        tell(batch, precision);
        const Computing computing(memory);
        MaximizeJob job(*structure_, batch, y.data(), values.data(), stats.data());
        run_units(*structure_, pool_, batch.problems, batch.threads, job);
    }

    void perturb(Array<const double> theta, Array<const double> alpha, nb::object factors, int64_t noisy,
                 uint64_t key, Array<const uint64_t> numbers, uint32_t first_sample, int threads,
                 Array<uint32_t> counts, Array<double> values, Array<double> stats, nb::object samples,
                 int64_t memory, nb::object precision) {
        require(counts.ndim() == 2 && values.ndim() == 2 && stats.ndim() == 3, "wrong number of axes");
        Batch batch = check(length(counts, 0), theta, alpha, factors, threads);
        const int64_t S = length(values, 1);
        batch.outputs = length(counts, 1);
        require(batch.outputs <= nodes(), "counts has too many columns");
        require(0 <= noisy && noisy <= nodes(), "noisy is out of range");
        require(S <= (int64_t{1} << 32) - first_sample, "samples have numbers below 2^32");
        require(numbers.ndim() == 1 && length(numbers, 0) == batch.problems, "numbers has the wrong length");
        require(length(values, 0) == batch.problems, "values has the wrong shape");
        require(
            length(stats, 0) == batch.problems && length(stats, 1) == S && length(stats, 2) == functions(),
            "stats has the wrong shape");
        uint8_t* y = nullptr;
        if (!samples.is_none()) {
            auto array = exactly<uint8_t>(samples);
            require(array.ndim() == 3 && length(array, 0) == batch.problems && length(array, 1) == S &&
                        length(array, 2) == batch.outputs,
                    "samples has the wrong shape");
            y = array.data();
        }
        tell(batch, precision);
        const Computing computing(memory);
        PerturbJob job(*structure_, batch, S, noisy, key, numbers.data(), first_sample, counts.data(),
                       values.data(), stats.data(), y);
        run_units(*structure_, pool_, batch.problems * job.blocks(), batch.threads, job);
    }

    void min_norm(Array<const double> theta, Array<const double> alpha, nb::object factors, int threads,
                  Array<double> s, Array<double> gaps, Array<int64_t> levels, int64_t memory) {
        require(s.ndim() == 2 && gaps.ndim() == 1 && levels.ndim() == 1, "wrong number of axes");
        Batch batch = check(length(s, 0), theta, alpha, factors, threads);
        require(length(s, 1) == nodes(), "s has the wrong shape");
        require(length(gaps, 0) == batch.problems && length(levels, 0) == batch.problems,
                "gaps or levels has the wrong length");
        const Computing computing(memory);
        MinNormJob job(*structure_, batch, s.data(), gaps.data(), levels.data());
        run_units(*structure_, pool_, batch.problems, batch.threads, job);
    }

   private:
    // precision: None, or zeros (problems, 2) for the unit of the integers and whether it was too coarse.
    static void tell(Batch& batch, const nb::object& precision) {
        if (precision.is_none()) return;
        auto array = exactly<double>(precision);
        require(array.ndim() == 2 && length(array, 0) == batch.problems && length(array, 1) == 2,
                "precision has the wrong shape");
        batch.precision = array.data();
    }
    Batch check(int64_t problems, const Array<const double>& theta, const Array<const double>& alpha,
                const nb::object& factors, int threads) const {
        require(theta.ndim() == 2 && length(theta, 1) == nodes(), "theta has the wrong shape");
        require(length(theta, 0) == 1 || length(theta, 0) == problems, "theta has the wrong length");
        require(alpha.ndim() == 2 && length(alpha, 1) == functions(), "alpha has the wrong shape");
        require(length(alpha, 0) == 1 || length(alpha, 0) == problems, "alpha has the wrong length");
        require(finite_and_nonnegative(alpha.data(), alpha.size()), "alpha must be finite and >= 0");
        require_threads(threads);
        Batch batch;
        batch.problems = problems;
        batch.theta = theta.data();
        batch.theta_shared = length(theta, 0) == 1;
        batch.alpha = alpha.data();
        batch.alpha_shared = length(alpha, 0) == 1;
        batch.threads = threads;
        if (!factors.is_none()) {
            auto array = exactly<const double>(factors);
            require(array.ndim() == 3, "factors must have three axes");
            require(length(array, 0) == 1 || length(array, 0) == problems, "factors has the wrong length");
            require(length(array, 1) == 1 || length(array, 1) == functions(), "factors has the wrong shape");
            require(length(array, 2) == edges(), "factors has the wrong shape");
            require(finite_and_nonnegative(array.data(), array.size()), "factors must be finite and >= 0");
            batch.factors = array.data();
            batch.factors_shared = length(array, 0) == 1;
            batch.factors_per_function = length(array, 1) > 1;
        }
        return batch;
    }
};

// planes: a list of (function, offset, value or array of one weight a node).
Kernel* make_grid(int64_t depth, int64_t height, int64_t width, Array<const int64_t> steps, int functions,
                  nb::list planes) {
    constexpr int64_t kLimit = int64_t{1} << 30;
    require(depth >= 1 && height >= 1 && width >= 1, "the shape must be positive");
    require(depth < kLimit && height < kLimit && width < kLimit && depth * height < kLimit &&
                depth * height * (width + 128) < kLimit,
            "the grid is too large: at most 2^30 nodes");
    require(functions >= 0, "functions must be >= 0");
    require(steps.ndim() == 2 && length(steps, 1) == 3, "steps has the wrong shape");
    const int64_t offsets = length(steps, 0);
    require(offsets == 2 || offsets == 3 || offsets == 4 || offsets == 13, "no such stencil");
    for (int64_t k = 0; k < offsets; ++k) {
        const int64_t* s = steps.data() + 3 * k;
        for (int axis = 0; axis < 3; ++axis) require(-1 <= s[axis] && s[axis] <= 1, "steps are -1, 0 or 1");
        const int64_t row = s[0] * height + s[1];
        if (k == 0)
            require(s[0] == 0 && s[1] == 0 && s[2] == 1, "the first step is along the row");
        else
            require(row >= 1 || (height == 1 && s[0] >= 0 && (s[0] || s[1] > 0)), "steps must point forward");
    }
    if (offsets == 2)
        require(depth == 1 && steps.data()[4] == 1 && steps.data()[5] == 0, "two steps: right and down");
    std::vector<GridPlane> list;
    for (nb::handle item : planes) {
        nb::tuple tuple;
        GridPlane plane{};
        require(nb::try_cast(item, tuple) && tuple.size() == 3 && nb::try_cast(tuple[0], plane.function) &&
                    nb::try_cast(tuple[1], plane.offset),
                "a plane is (function, offset, weight)");
        require(0 <= plane.function && plane.function < functions, "plane of an unknown function");
        require(0 <= plane.offset && plane.offset < offsets, "plane of an unknown offset");
        if (nb::isinstance<nb::float_>(tuple[2])) {
            plane.value = nb::cast<double>(tuple[2]);  // which it is
            require(finite_and_nonnegative(&plane.value, 1), "weights must be finite and >= 0");
        } else {
            Array<const double> array;
            require(nb::try_cast(tuple[2], array), "the weight of a plane is a float or an array of them");
            require(static_cast<int64_t>(array.size()) == depth * height * width,
                    "a plane has the wrong size");
            require(finite_and_nonnegative(array.data(), array.size()), "weights must be finite and >= 0");
            plane.value = 0;
            plane.array.assign(array.data(), array.data() + array.size());
        }
        list.push_back(std::move(plane));
    }
    const Computing computing;
    return new Kernel(std::make_unique<GridStructure>(depth, height, width, steps.data(),
                                                      static_cast<int>(offsets), functions, std::move(list)));
}

// Function k has weight[t] on edge edge[t] for start[k] <= t < start[k + 1].
Kernel* make_graph(int64_t nodes, Array<const int64_t> edges, bool dense, Array<const int64_t> start,
                   Array<const int64_t> edge, Array<const double> weight) {
    constexpr int64_t kLimit = int64_t{1} << 30;
    require(nodes >= 0 && nodes < kLimit, "too many nodes: at most 2^30");
    require(edges.ndim() == 2 && length(edges, 1) == 2, "edges has the wrong shape");
    const int64_t m = length(edges, 0);
    require(m < kLimit / 2, "too many edges: at most 2^29");
    require(!dense || nodes <= (int64_t{1} << 15), "too many nodes for the dense kernel");
    // copies: nobody can change them once they are checked
    std::vector<int64_t> ends(edges.data(), edges.data() + 2 * m);
    for (int64_t e = 0; e < m; ++e)
        require(0 <= ends[2 * e] && ends[2 * e] < ends[2 * e + 1] && ends[2 * e + 1] < nodes,
                "edges must satisfy 0 <= i < j < n");
    require(start.ndim() == 1 && length(start, 0) >= 1 && length(start, 0) <= kLimit,
            "start has the wrong shape");
    require(edge.ndim() == 1 && weight.ndim() == 1 && length(edge, 0) == length(weight, 0),
            "edge and weight differ in length");
    const int64_t terms = length(edge, 0), count = length(start, 0);
    require(start.data()[0] == 0 && start.data()[count - 1] == terms, "start does not cover the terms");
    for (int64_t k = 1; k < count; ++k)
        require(start.data()[k - 1] <= start.data()[k], "start must not decrease");
    std::vector<int32_t> edge_of(terms);
    for (int64_t t = 0; t < terms; ++t) {
        require(0 <= edge.data()[t] && edge.data()[t] < m, "a term names an unknown edge");
        edge_of[t] = static_cast<int32_t>(edge.data()[t]);
    }
    require(finite_and_nonnegative(weight.data(), weight.size()), "weights must be finite and >= 0");
    std::vector<int64_t> starts(start.data(), start.data() + count);
    std::vector<double> weights(weight.data(), weight.data() + terms);
    const Computing computing;
    return new Kernel(std::make_unique<GraphStructure>(nodes, std::move(ends), dense, std::move(starts),
                                                       std::move(edge_of), std::move(weights)));
}

void draw_noise(uint64_t key, uint64_t problem, uint32_t sample, Array<double> out) {
    require(out.ndim() == 1, "out must have one axis");
    const Computing computing;
    const std::vector<double> zero(out.size(), 0.0);
    perturb_field(zero.data(), length(out, 0), length(out, 0), key, problem, sample, out.data());
}

bool has_avx2() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") &&
           __builtin_cpu_supports("lzcnt");
#else
    return false;
#endif
}

}  // namespace
}  // namespace LOGSUPER_ISA

NB_MODULE(LOGSUPER_MODULE, m) {
    using namespace LOGSUPER_ISA;
    m.doc() = "Max-flow, transfer-matrix, Markov-chain and message kernels: loops over arrays, nothing else.";
    nb::class_<Kernel>(m, "Kernel")
        .def_prop_ro("nodes", &Kernel::nodes)
        .def_prop_ro("edges", &Kernel::edges)
        .def_prop_ro("functions", &Kernel::functions)
        .def("maximize", &Kernel::maximize, nb::arg("theta"), nb::arg("alpha"), nb::arg("factors").none(),
             nb::arg("maximal"), nb::arg("wide"), nb::arg("threads"), nb::arg("y").noconvert(),
             nb::arg("values").noconvert(), nb::arg("stats").noconvert(), nb::arg("memory") = Watch::kAnyRoom,
             nb::arg("precision") = nb::none())
        .def("perturb", &Kernel::perturb, nb::arg("theta"), nb::arg("alpha"), nb::arg("factors").none(),
             nb::arg("noisy"), nb::arg("key"), nb::arg("numbers"), nb::arg("first_sample"),
             nb::arg("threads"), nb::arg("counts").noconvert(), nb::arg("values").noconvert(),
             nb::arg("stats").noconvert(), nb::arg("samples").none(), nb::arg("memory") = Watch::kAnyRoom,
             nb::arg("precision") = nb::none())
        .def("min_norm", &Kernel::min_norm, nb::arg("theta"), nb::arg("alpha"), nb::arg("factors").none(),
             nb::arg("threads"), nb::arg("s").noconvert(), nb::arg("gaps").noconvert(),
             nb::arg("levels").noconvert(), nb::arg("memory") = Watch::kAnyRoom)
        .def("workspace", &Kernel::workspace, nb::arg("threads"), nb::arg("wide"), nb::arg("min_norm"));
    m.def("grid", &make_grid, nb::arg("depth"), nb::arg("height"), nb::arg("width"), nb::arg("steps"),
          nb::arg("functions"), nb::arg("planes"), nb::rv_policy::take_ownership);
    m.def("graph", &make_graph, nb::arg("nodes"), nb::arg("edges"), nb::arg("dense"), nb::arg("start"),
          nb::arg("edge"), nb::arg("weight"), nb::rv_policy::take_ownership);
    m.def("draw_noise", &draw_noise, nb::arg("key"), nb::arg("problem"), nb::arg("sample"),
          nb::arg("out").noconvert());
    m.def("has_avx2", &has_avx2);
    bind_strips(m);
    bind_chains(m);
    bind_messages(m);
    bind_filters(m);
    bind_conditional(m);
}
