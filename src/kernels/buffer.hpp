// Zeroed memory with a guard on both sides, so that reads of vectors and neighbours stay inside.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "interrupt.hpp"

namespace LOGSUPER_ISA {

template <class T>
struct Buffer {
    struct Free {
        void operator()(void* p) const { std::free(p); }
    };
    std::unique_ptr<void, Free> memory;
    T* data = nullptr;  // `guard` zeros lie before it, and behind its n numbers

    void allocate(int64_t n, int64_t guard) {
        constexpr size_t kHuge = size_t{2} << 20;
        const size_t bytes = static_cast<size_t>(n + 2 * guard) * sizeof(T);
        const size_t unit = bytes >= kHuge ? kHuge : 64;
        void* p = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
        if (!p) throw std::bad_alloc();
        memory.reset(p);
#if defined(__linux__)
        // Neighbouring rows of a large image lie on different small pages: ask for large ones.
        if (unit == kHuge) madvise(p, (bytes + unit - 1) / unit * unit, MADV_HUGEPAGE);
#endif
        constexpr size_t kPiece = size_t{8} << 20;
        for (size_t at = 0; at < bytes; at += kPiece) {
            const size_t piece = std::min(kPiece, bytes - at);
            std::memset(static_cast<char*>(p) + at, 0, piece);
            poll(static_cast<int64_t>(piece / 4));
        }
        data = static_cast<T*>(p) + guard;
    }
};

}  // namespace LOGSUPER_ISA
