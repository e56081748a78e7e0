// Step 4 of the grid solver: Boykov & Kolmogorov (2004), starting from the nodes in contact.
//
// A root is a node with excess. Every other node of a tree knows the direction of its parent; arcs are looked
// up in the bit planes, all directions of a node at once and without branches.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "grid_numbers.hpp"
#include "grid_planes.hpp"
#include "grid_trees.hpp"

namespace LOGSUPER_ISA {

template <class T, int K>
class GridSearch {
    // An arc of an augmenting path.
    struct PathArc {
        int64_t base;  // the edge is (base, base + step(k))
        int32_t child;  // the end of the arc that is farther from the root
        int16_t k;
        bool along;  // whether the flow goes from base to base + step(k)
    };

    const GridLayout<K> layout_;
    GridNumbers<T, K>& numbers_;
    GridPlanes<K>& planes_;
    GridTrees<K>& trees_;
    BitPlane orphan_, queued_;
    Buffer<int32_t> stamp_, distance_;  // a distance from the root is valid only if its stamp is time_
    int32_t time_ = 0;
    std::vector<int32_t> queue_;  // ring buffer of active nodes; its size is a power of two
    size_t queue_head_ = 0, queue_size_ = 0;
    std::vector<int32_t> orphans_;
    std::vector<PathArc> path_;
    bool complete_sink_ = false;

   public:
    static constexpr int64_t kPlanes = 2;

    GridSearch(GridNumbers<T, K>& numbers, GridPlanes<K>& planes, GridTrees<K>& trees)
        : layout_(numbers.layout), numbers_(numbers), planes_(planes), trees_(trees), queue_(256) {
        planes.allocate(orphan_);
        planes.allocate(queued_);
        stamp_.allocate(layout_.rows * layout_.stride, 0);
        distance_.allocate(numbers.padded_rows * layout_.stride, 0);
    }

    // (padded rows, stride) numbers that anybody may overwrite while no search runs.
    int32_t* workspace() { return distance_.data; }

    // Makes the flow maximal and the source tree complete, and the sink tree too where the tie needs it.
    void run(Tie tie) {
        complete_sink_ = tie == Tie::kMaximal;
        trees_.find_contacts([&](int64_t b) { push_active(b); });
        if (!queue_size_) return;
        if (time_ > std::numeric_limits<int32_t>::max() / 2) {
            time_ = 0;
            std::memset(stamp_.data, 0, sizeof(int32_t) * layout_.rows * layout_.stride);
        }
        for (uint64_t count = 1; queue_size_; ++count) {
            if (count % 256 == 0) poll(256 * 64);
            const int64_t p = pop_active();
            if (bit(planes_.source, p))
                extend<true>(p);
            else if (bit(planes_.sink, p))
                extend<false>(p);
        }
    }

   private:
    int64_t step(int direction) const { return layout_.step_by_direction[direction]; }

    T residual(int64_t b, int direction) const {
        const int k = direction >> 1;
        if (direction & 1) {
            const int64_t base = b + step(direction);
            return numbers_.capacity(k, base) + numbers_.flow[k].data[base];
        }
        return numbers_.capacity(k, b) - numbers_.flow[k].data[b];
    }

    // Changes the flow of an edge by `amount`; returns whether the arc is now saturated.
    bool push(int k, int64_t base, bool along, T amount) {
        T& flow = numbers_.flow[k].data[base];
        const T capacity = numbers_.capacity(k, base);
        flow += along ? amount : -amount;
        set_bit(along ? planes_.backward[k] : planes_.forward[k], base);
        if (flow != (along ? capacity : -capacity)) return false;
        clear_bit(along ? planes_.forward[k] : planes_.backward[k], base);
        return true;
    }

    void push_active(int64_t b) {
        if (bit(queued_, b)) return;
        set_bit(queued_, b);
        if (queue_size_ == queue_.size()) {  // copy in order to a buffer of twice the size
            std::vector<int32_t> larger(queue_.size() * 2);
            for (size_t i = 0; i < queue_size_; ++i)
                larger[i] = queue_[(queue_head_ + i) & (queue_.size() - 1)];
            queue_.swap(larger);
            queue_head_ = 0;
        }
        queue_[(queue_head_ + queue_size_++) & (queue_.size() - 1)] = static_cast<int32_t>(b);
    }

    int64_t pop_active() {
        const int64_t b = queue_[queue_head_];
        queue_head_ = (queue_head_ + 1) & (queue_.size() - 1);
        --queue_size_;
        clear_bit(queued_, b);
        return b;
    }

    // Scans the residual arcs of p: augments where the other tree is met, adopts free nodes.
    template <bool Source>
    void extend(int64_t p) {
        auto& mine = Source ? planes_.source : planes_.sink;
        auto& other = Source ? planes_.sink : planes_.source;
        for (;;) {
            const unsigned contact = growth_arcs<Source>(p) & planes_.neighbours(other, p);
            if (!contact) break;
            const int d = __builtin_ctz(contact);
            const int64_t q = p + step(d);
            if (Source)
                augment(p, d, q);
            else
                augment(q, d ^ 1, p);
            adopt_orphans();
            if (!bit(mine, p)) return;
        }
        unsigned fresh = growth_arcs<Source>(p) & ~planes_.neighbours(mine, p);
        for (; fresh; fresh &= fresh - 1) {
            const int d = __builtin_ctz(fresh);
            const int64_t q = p + step(d);
            set_bit(mine, q);
            trees_.set_parent(q, d ^ 1);
            stamp_.data[q] = stamp_.data[p];
            distance_.data[q] = static_cast<int32_t>(static_cast<uint32_t>(distance_.data[p]) + 1);
            push_active(q);
        }
    }
    // Directions in which a tree can grow from b.
    template <bool Source>
    unsigned growth_arcs(int64_t b) const {
        return Source ? planes_.arcs_out(b) : planes_.arcs_in(b);
    }

    void make_orphan(int64_t b) {
        set_bit(orphan_, b);
        orphans_.push_back(static_cast<int32_t>(b));
    }

    // Moves b to its root and notes the arcs in path_; returns the smaller of `amount` and their residuals.
    template <bool Source>
    T climb(int64_t& b, T amount) {
        while (!numbers_.has_excess(b)) {
            const int up = trees_.parent(b), k = up >> 1;
            const int64_t above = b + step(up);
            const bool against = up & 1;  // whether the parent is the lower end of the edge
            const int64_t base = against ? above : b;
            const bool along = Source == against;  // flow goes down the source tree and up the sink tree
            const T w = numbers_.capacity(k, base), f = numbers_.flow[k].data[base];
            amount = std::min(amount, static_cast<T>(along ? w - f : w + f));
            path_.push_back({base, static_cast<int32_t>(b), static_cast<int16_t>(k), along});
            b = above;
        }
        return amount;
    }

    // Sends as much as fits from the root above p, over the arc p -> q in direction d, to the root above q.
    void augment(int64_t p, int d, int64_t q) {
        path_.clear();
        int64_t from = p, to = q;
        T amount = climb<true>(from, residual(p, d));
        amount = climb<false>(to, amount);
        poll_if_many(static_cast<int64_t>(path_.size()));
        T &source = numbers_.excess.data[from], &sink = numbers_.excess.data[to];
        amount = std::min(amount, std::min(source, static_cast<T>(-sink)));
        push(d >> 1, d & 1 ? q : p, !(d & 1), amount);
        for (const PathArc& arc : path_)
            if (push(arc.k, arc.base, arc.along, amount)) make_orphan(arc.child);
        if ((source -= amount) == 0) make_orphan(from);
        if ((sink += amount) == 0) make_orphan(to);
    }

    void adopt_orphans() {
        ++time_;
        for (size_t i = 0; i < orphans_.size(); ++i) {
            const int64_t b = orphans_[i];
            if (i % 256 == 255) poll(256 * 64);
            if (bit(planes_.source, b))
                adopt<true>(b);
            else
                adopt<false>(b);
        }
        orphans_.clear();
    }

    // Distance of b from its root, or -1 if its path ends at an orphan. Stamps the path.
    int32_t depth(int64_t b) {
        int32_t length = 0;
        int64_t x = b;
        for (;;) {
            if (stamp_.data[x] == time_) {
                length += distance_.data[x];
                break;
            }
            if (numbers_.has_excess(x)) {
                stamp_.data[x] = time_;
                distance_.data[x] = 0;
                break;
            }
            if (bit(orphan_, x)) {
                poll_if_many(length);
                return -1;
            }
            x += step(trees_.parent(x));
            ++length;
        }
        poll_if_many(length);
        for (int32_t left = length; stamp_.data[b] != time_; b += step(trees_.parent(b))) {
            stamp_.data[b] = time_;
            distance_.data[b] = left--;
        }
        return length;
    }

    // Finds a new parent for an orphan, the one nearest to a root, or frees it.
    template <bool Source>
    void adopt(int64_t b) {
        auto& mine = Source ? planes_.source : planes_.sink;
        const unsigned towards = growth_arcs<!Source>(b);  // arcs from a possible parent
        const unsigned kin = planes_.neighbours(mine, b);
        int best = -1;
        int32_t shortest = std::numeric_limits<int32_t>::max();
        for (unsigned rest = towards & kin; rest; rest &= rest - 1) {
            const int d = __builtin_ctz(rest);
            const int32_t length = depth(b + step(d));
            if (length >= 0 && length < shortest) {
                shortest = length;
                best = d;
            }
        }
        clear_bit(orphan_, b);
        if (best >= 0) {
            trees_.set_parent(b, best);
            stamp_.data[b] = time_;
            distance_.data[b] = shortest + 1;
            return;
        }
        clear_bit(mine, b);
        // Contacts were queued by their source end only. That is enough for a complete source tree; a
        // complete sink tree must also grow into nodes that the source tree gives up.
        if (Source && complete_sink_)
            for (unsigned rest = planes_.arcs_out(b) & planes_.neighbours(planes_.sink, b); rest;
                 rest &= rest - 1)
                push_active(b + step(__builtin_ctz(rest)));
        // Across the border of the grid both arcs are closed; any neighbour in the tree has one open.
        for (unsigned rest = (towards | growth_arcs<Source>(b)) & kin; rest; rest &= rest - 1) {
            const int d = __builtin_ctz(rest);
            const int64_t q = b + step(d);
            if (towards >> d & 1) push_active(q);
            if (!numbers_.has_excess(q) && !bit(orphan_, q) && trees_.parent(q) == (d ^ 1)) make_orphan(q);
        }
    }
};

}  // namespace LOGSUPER_ISA
