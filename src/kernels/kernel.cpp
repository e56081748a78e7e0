// Python bindings of prepared structures.
#include "kernel.hpp"

#include <nanobind/stl/pair.h>

#include <algorithm>

namespace LOGSUPER_ISA {
namespace {

// precision: None, or zeros (problems, 2) for the unit of the integers and whether it was too coarse.
void set_precision(Batch& batch, const nb::object& precision) {
    if (precision.is_none()) return;
    auto array = exactly<double>(precision);
    require(has_shape(array, {batch.problems, 2}), "precision has the wrong shape");
    batch.precision = array.data();
}

}  // namespace

Batch Kernel::check(int64_t problems, const Inputs& inputs) const {
    const auto& [theta, alpha, factors, threads] = inputs;
    require(theta.ndim() == 2 && length(theta, 1) == structure_->elements(), "theta has the wrong shape");
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

void Kernel::set_shift(Batch& batch, const nb::object& shifted, const nb::object& shift) const {
    if (shifted.is_none()) return;
    auto places = exactly<const int64_t>(shifted);
    auto numbers = exactly<const double>(shift);
    require(places.ndim() == 1 && numbers.ndim() == 2 && length(numbers, 1) == length(places, 0),
            "shift has the wrong shape");
    require(length(numbers, 0) == 1 || length(numbers, 0) == batch.problems, "shift has the wrong length");
    for (int64_t j = 0; j < length(places, 0); ++j)
        require(0 <= places.data()[j] && places.data()[j] < nodes(), "shifted is out of range");
    batch.n_shifted = length(places, 0);
    batch.shifted = places.data();
    batch.shift = numbers.data();
    batch.shift_shared = length(numbers, 0) == 1;
}

std::pair<int64_t, int64_t> Kernel::workspace(int threads, bool wide, bool min_norm) {
    require_threads(threads);
    const WorkspaceBytes one = structure_->workspace({wide, min_norm});
    const int64_t workers = team_size(threads), held = pool_.held_bytes();
    return {std::max<int64_t>(0, workers * one.least - held),
            std::max<int64_t>(0, workers * one.most - held)};
}

void Kernel::maximize(Array<const double> theta, Array<const double> alpha, nb::object factors, bool maximal,
                      bool wide, int threads, Array<uint8_t> y, Array<double> values, Array<double> stats,
                      int64_t memory, nb::object precision, nb::object shifted, nb::object shift) {
    require(y.ndim() == 2 && values.ndim() == 1 && stats.ndim() == 2, "wrong number of axes");
    Batch batch = check(length(y, 0), {theta, alpha, factors, threads});
    batch.tie = maximal ? Tie::kMaximal : Tie::kMinimal;
    batch.wide = wide;
    batch.outputs = length(y, 1);
    require(batch.outputs <= structure_->elements(), "y has too many columns");
    require(length(values, 0) == batch.problems, "values has the wrong length");
    require(has_shape(stats, {batch.problems, functions()}), "stats has the wrong shape");
    set_precision(batch, precision);
    set_shift(batch, shifted, shift);
    const Computing computing(memory);
    const MaximizeJob job(*structure_, batch, {y.data(), values.data(), stats.data()});
    run_units(*structure_, pool_, threads, job);
}

void Kernel::tile(Array<const double> theta, nb::object factors, Array<const int64_t> ring, double degree,
                  bool maximal, bool wide, Array<uint8_t> y, int64_t memory) {
    require(structure_->is_grid() && structure_->runs().empty(), "tiles are whole grids");
    require(has_shape(theta, {nodes()}), "theta has the wrong shape");
    require(has_shape(y, {nodes()}), "y has the wrong shape");
    require(ring.ndim() == 1, "ring must be a vector");
    for (int64_t j = 0; j < length(ring, 0); ++j)
        require(0 <= ring.data()[j] && ring.data()[j] < nodes(), "ring is out of range");
    require(std::isfinite(degree) && degree >= 0, "degree must be finite and >= 0");
    TileProblem problem;
    problem.theta = theta.data();
    problem.n_ring = length(ring, 0);
    problem.ring = ring.data();
    problem.degree = degree;
    problem.wide = wide;
    problem.tie = maximal ? Tie::kMaximal : Tie::kMinimal;
    problem.labels = y.data();
    if (!factors.is_none()) {
        auto array = exactly<const double>(factors);
        require(has_shape(array, {edges()}), "factors has the wrong shape");
        require(finite_and_nonnegative(array.data(), array.size()), "factors must be finite and >= 0");
        problem.factors = array.data();
    }
    const Computing computing(memory);
    run_units(*structure_, pool_, 1, TileJob(*structure_, problem));
}

void Kernel::perturb(Array<const double> theta, Array<const double> alpha, nb::object factors, int64_t noisy,
                     uint64_t key, Array<const uint64_t> numbers, uint32_t first_sample, int threads,
                     Array<uint32_t> counts, Array<double> values, Array<double> stats, nb::object samples,
                     int64_t memory, nb::object precision) {
    require(counts.ndim() == 2 && values.ndim() == 2 && stats.ndim() == 3, "wrong number of axes");
    Batch batch = check(length(counts, 0), {theta, alpha, factors, threads});
    const PerturbNoise noise{length(values, 1), noisy, key, numbers.data(), first_sample};
    batch.outputs = length(counts, 1);
    require(batch.outputs <= structure_->elements(), "counts has too many columns");
    require(0 <= noisy && noisy <= structure_->elements(), "noisy is out of range");
    require(noise.samples <= (int64_t{1} << 32) - first_sample, "samples have numbers below 2^32");
    require(has_shape(numbers, {batch.problems}), "numbers has the wrong length");
    require(length(values, 0) == batch.problems, "values has the wrong shape");
    require(has_shape(stats, {batch.problems, noise.samples, functions()}), "stats has the wrong shape");
    PerturbOutputs out{counts.data(), values.data(), stats.data()};
    if (!samples.is_none()) {
        auto array = exactly<uint8_t>(samples);
        require(has_shape(array, {batch.problems, noise.samples, batch.outputs}),
                "samples has the wrong shape");
        out.labels = array.data();
    }
    set_precision(batch, precision);
    const Computing computing(memory);
    const PerturbJob job(*structure_, batch, noise, out);
    run_units(*structure_, pool_, threads, job);
}

void Kernel::min_norm(Array<const double> theta, Array<const double> alpha, nb::object factors, int threads,
                      Array<double> s, Array<double> gaps, Array<int64_t> levels, int64_t memory) {
    require(s.ndim() == 2 && gaps.ndim() == 1 && levels.ndim() == 1, "wrong number of axes");
    require(structure_->runs().empty(), "min-norm points are found on whole grids only");
    const Batch batch = check(length(s, 0), {theta, alpha, factors, threads});
    require(length(s, 1) == nodes(), "s has the wrong shape");
    require(length(gaps, 0) == batch.problems && length(levels, 0) == batch.problems,
            "gaps or levels has the wrong length");
    const Computing computing(memory);
    const MinNormJob job(*structure_, batch, {s.data(), gaps.data(), levels.data()});
    run_units(*structure_, pool_, threads, job);
}

void bind_kernel(nb::module_& m) {
    nb::class_<Kernel>(m, "Kernel")
        .def_prop_ro("nodes", &Kernel::nodes)
        .def_prop_ro("edges", &Kernel::edges)
        .def_prop_ro("functions", &Kernel::functions)
        .def("maximize", &Kernel::maximize, nb::arg("theta"), nb::arg("alpha"), nb::arg("factors").none(),
             nb::arg("maximal"), nb::arg("wide"), nb::arg("threads"), nb::arg("y").noconvert(),
             nb::arg("values").noconvert(), nb::arg("stats").noconvert(),
             nb::arg("memory") = CallMonitor::kUnlimited, nb::arg("precision") = nb::none(),
             nb::arg("shifted") = nb::none(), nb::arg("shift") = nb::none())
        .def("tile", &Kernel::tile, nb::arg("theta"), nb::arg("factors").none(), nb::arg("ring"),
             nb::arg("degree"), nb::arg("maximal"), nb::arg("wide"), nb::arg("y").noconvert(),
             nb::arg("memory") = CallMonitor::kUnlimited)
        .def("perturb", &Kernel::perturb, nb::arg("theta"), nb::arg("alpha"), nb::arg("factors").none(),
             nb::arg("noisy"), nb::arg("key"), nb::arg("numbers"), nb::arg("first_sample"),
             nb::arg("threads"), nb::arg("counts").noconvert(), nb::arg("values").noconvert(),
             nb::arg("stats").noconvert(), nb::arg("samples").none(),
             nb::arg("memory") = CallMonitor::kUnlimited, nb::arg("precision") = nb::none())
        .def("min_norm", &Kernel::min_norm, nb::arg("theta"), nb::arg("alpha"), nb::arg("factors").none(),
             nb::arg("threads"), nb::arg("s").noconvert(), nb::arg("gaps").noconvert(),
             nb::arg("levels").noconvert(), nb::arg("memory") = CallMonitor::kUnlimited)
        .def("workspace", &Kernel::workspace, nb::arg("threads"), nb::arg("wide"), nb::arg("min_norm"));
}

}  // namespace LOGSUPER_ISA
