// Python bindings of sums of decision trees.
#include "trees.hpp"

#include "bindings.hpp"
#include "team.hpp"

namespace LOGSUPER_ISA {
namespace {

TreeSum* make_tree_sum(int64_t width, Array<const int32_t> roots, Array<const int32_t> feature,
                       Array<const float> threshold, Array<const int32_t> left, Array<const int32_t> right,
                       Array<const double> value) {
    require(width >= 1, "width must be >= 1");
    require(roots.ndim() == 1 && feature.ndim() == 1, "wrong number of axes");
    const int64_t n = length(feature, 0);
    require(n <= std::numeric_limits<int32_t>::max(), "too many nodes");
    require(
        has_shape(threshold, {n}) && has_shape(left, {n}) && has_shape(right, {n}) && has_shape(value, {n}),
        "the arrays of nodes must have one length");
    const Computing computing;
    // copies, which cannot change after the check
    const auto copy = [](const auto& array) {
        return std::vector(array.data(), array.data() + array.size());
    };
    const auto r = copy(roots), f = copy(feature), a = copy(left), b = copy(right);
    const TreeNodes nodes{length(roots, 0), n,        width,    r.data(),    f.data(),
                          threshold.data(), a.data(), b.data(), value.data()};
    return new TreeSum(nodes);
}

void add(const TreeSum& trees, Array<const float> columns, int threads, Array<double> sums) {
    require(columns.ndim() == 2 && length(columns, 0) == trees.width(), "columns has the wrong shape");
    const int64_t count = length(columns, 1);
    require(has_shape(sums, {count}), "sums has the wrong shape");
    require_threads(threads);
    const Computing computing;
    run_team((count + TreeSum::kTask - 1) / TreeSum::kTask, threads, [&] { return trees.scratch(); },
             [&](TreeSum::Scratch& scratch, int64_t task) {
                 const int64_t first = task * TreeSum::kTask;
                 trees.add(scratch, columns.data(), count, first, std::min(count, first + TreeSum::kTask),
                           sums.data());
             });
}

}  // namespace

void bind_trees(nb::module_& m) {
    nb::class_<TreeSum>(m, "TreeSum")
        .def("add", &add, nb::arg("columns"), nb::arg("threads"), nb::arg("sums").noconvert());
    m.def("tree_sum", &make_tree_sum, nb::arg("width"), nb::arg("roots"), nb::arg("feature"),
          nb::arg("threshold"), nb::arg("left"), nb::arg("right"), nb::arg("value"),
          nb::rv_policy::take_ownership);
}

}  // namespace LOGSUPER_ISA
