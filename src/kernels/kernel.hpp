// A structure with its pool of workers: the class `Kernel` of the Python module.
#pragma once

#include <memory>
#include <utility>

#include "batch.hpp"
#include "bindings.hpp"

namespace LOGSUPER_ISA {

class Kernel {
    std::unique_ptr<Structure> structure_;
    WorkerPool pool_;

   public:
    explicit Kernel(std::unique_ptr<Structure> structure) : structure_(std::move(structure)) {}

    int64_t nodes() const { return structure_->nodes(); }
    int64_t edges() const { return structure_->edges(); }
    int functions() const { return structure_->functions(); }

    // Bounds on the bytes that a call on so many threads will allocate.
    std::pair<int64_t, int64_t> workspace(int threads, bool wide, bool min_norm);

    void maximize(Array<const double> theta, Array<const double> alpha, nb::object factors, bool maximal,
                  bool wide, int threads, Array<uint8_t> y, Array<double> values, Array<double> stats,
                  int64_t memory, nb::object precision, nb::object shifted, nb::object shift);
    void tile(Array<const double> theta, nb::object factors, Array<const int64_t> ring, double degree,
              bool maximal, bool wide, Array<uint8_t> y, int64_t memory);
    void perturb(Array<const double> theta, Array<const double> alpha, nb::object factors, int64_t noisy,
                 uint64_t key, Array<const uint64_t> numbers, uint32_t first_sample, int threads,
                 Array<uint32_t> counts, Array<double> values, Array<double> stats, nb::object samples,
                 int64_t memory, nb::object precision);
    void min_norm(Array<const double> theta, Array<const double> alpha, nb::object factors, int threads,
                  Array<double> s, Array<double> gaps, Array<int64_t> levels, int64_t memory);

   private:
    struct Inputs {
        const Array<const double>& theta;
        const Array<const double>& alpha;
        const nb::object& factors;
        int threads;
    };
    Batch check(int64_t problems, const Inputs& inputs) const;
    void set_shift(Batch& batch, const nb::object& shifted, const nb::object& shift) const;
};

}  // namespace LOGSUPER_ISA
