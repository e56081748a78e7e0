// The fourth step of the grid solver: Boykov & Kolmogorov (2004), from the nodes in contact on.
//
// A root is a node with excess. A node knows the direction of its parent; arcs are looked up in the bit
// planes, all directions of a node at once and without branches.
#pragma once

#include "grid.hpp"

namespace LOGSUPER_ISA {

// One bit a direction, without branches: arcs out of b, arcs into b, neighbours in a plane.
template <class T, int K>
unsigned GridSolver<T, K>::open_out(int64_t b) const {
    unsigned mask = 0;
    for (int k = 0; k < K; ++k) {
        mask |= static_cast<unsigned>(bit(forward_[k], b)) << (2 * k);
        mask |= static_cast<unsigned>(bit(backward_[k], b - step(k))) << (2 * k + 1);
    }
    return mask;
}

template <class T, int K>
unsigned GridSolver<T, K>::open_in(int64_t b) const {
    unsigned mask = 0;
    for (int k = 0; k < K; ++k) {
        mask |= static_cast<unsigned>(bit(backward_[k], b)) << (2 * k);
        mask |= static_cast<unsigned>(bit(forward_[k], b - step(k))) << (2 * k + 1);
    }
    return mask;
}

template <class T, int K>
unsigned GridSolver<T, K>::neighbours(const Buffer<uint64_t>& plane, int64_t b) const {
    unsigned mask = 0;
    for (int k = 0; k < K; ++k) {
        mask |= static_cast<unsigned>(bit(plane, b + step(k))) << (2 * k);
        mask |= static_cast<unsigned>(bit(plane, b - step(k))) << (2 * k + 1);
    }
    return mask;
}

template <class T, int K>
T GridSolver<T, K>::residual(int64_t b, int d) const {
    const int k = d >> 1;
    if (d & 1) {
        const int64_t base = b + step_[d];
        return capacity(k, base) + flow_[k].data[base];
    }
    return capacity(k, b) - flow_[k].data[b];
}

// Push along d; true if the arc is now full.
template <class T, int K>
bool GridSolver<T, K>::push(int64_t b, int d, T amount) {
    const int k = d >> 1;
    if (d & 1) {
        const int64_t base = b + step_[d];
        T& f = flow_[k].data[base];
        f -= amount;
        set(forward_[k], base);
        if (f != -capacity(k, base)) return false;
        clear(backward_[k], base);
        return true;
    }
    T& f = flow_[k].data[b];
    f += amount;
    set(backward_[k], b);
    if (f != capacity(k, b)) return false;
    clear(forward_[k], b);
    return true;
}

template <class T, int K>
int GridSolver<T, K>::parent(int64_t b) const {
    int d = 0;
    for (int i = 0; i < kParentBits; ++i) d |= static_cast<int>(bit(parent_[i], b)) << i;
    return d;
}

template <class T, int K>
void GridSolver<T, K>::set_parent(int64_t b, int d) {
    for (int i = 0; i < kParentBits; ++i)
        if (d >> i & 1)
            set(parent_[i], b);
        else
            clear(parent_[i], b);
}

template <class T, int K>
void GridSolver<T, K>::push_active(int64_t b) {
    if (bit(queued_, b)) return;
    set(queued_, b);
    if (queue_size_ == queue_.size()) {  // ring buffer: unroll into twice the space
        std::vector<int32_t> larger(queue_.size() * 2);
        for (size_t i = 0; i < queue_size_; ++i) larger[i] = queue_[(queue_head_ + i) & (queue_.size() - 1)];
        queue_.swap(larger);
        queue_head_ = 0;
    }
    queue_[(queue_head_ + queue_size_++) & (queue_.size() - 1)] = static_cast<int32_t>(b);
}

template <class T, int K>
int64_t GridSolver<T, K>::pop_active() {
    const int64_t b = queue_[queue_head_];
    queue_head_ = (queue_head_ + 1) & (queue_.size() - 1);
    --queue_size_;
    clear(queued_, b);
    return b;
}

template <class T, int K>
void GridSolver<T, K>::finish(Tie tie) {
    complete_sink_ = tie == Tie::kMaximal;
    grow_trees();
    if (find_contacts()) search();
    if (tie == Tie::kMaximal) {
        for (int64_t r = 0; r < rows_; ++r)
            for (int64_t word = 0; word < used_words_; ++word)
                source_.data[r * words_ + word] =
                    ~sink_.data[r * words_ + word] & between(0, shape_.width - word * 64);
    }
}

template <class T, int K>
void GridSolver<T, K>::search() {
    if (time_ > std::numeric_limits<int32_t>::max() / 2) {
        time_ = 0;
        std::memset(stamp_.data, 0, sizeof(int32_t) * rows_ * S);
    }
    for (uint64_t step = 1; queue_size_; ++step) {
        if (step % 256 == 0) poll(256 * 64);
        const int64_t p = pop_active();
        if (bit(source_, p))
            extend<true>(p);
        else if (bit(sink_, p))
            extend<false>(p);
    }
}

// Scan the residual arcs of p: augment where the other tree is met, adopt free nodes.
template <class T, int K>
template <bool Source>
void GridSolver<T, K>::extend(int64_t p) {
    auto& mine = Source ? source_ : sink_;
    auto& other = Source ? sink_ : source_;
    for (;;) {
        const unsigned contact = (Source ? open_out(p) : open_in(p)) & neighbours(other, p);
        if (!contact) break;
        const int d = __builtin_ctz(contact);
        const int64_t q = p + step_[d];
        if (Source)
            augment(p, d, q);
        else
            augment(q, d ^ 1, p);
        adopt();
        if (!bit(mine, p)) return;
    }
    unsigned fresh = (Source ? open_out(p) : open_in(p)) & ~neighbours(mine, p);
    for (; fresh; fresh &= fresh - 1) {
        const int d = __builtin_ctz(fresh);
        const int64_t q = p + step_[d];
        set(mine, q);
        set_parent(q, d ^ 1);
        stamp_.data[q] = stamp_.data[p];
        distance_.data[q] = static_cast<int32_t>(static_cast<uint32_t>(distance_.data[p]) + 1);
        push_active(q);
    }
}

template <class T, int K>
void GridSolver<T, K>::make_orphan(int64_t b) {
    set(orphan_, b);
    orphans_.push_back(static_cast<int32_t>(b));
}

// Climb from b to its root, noting the arcs; what the narrowest of them lets through.
template <class T, int K>
template <bool Source>
T GridSolver<T, K>::climb(int64_t& b, T amount) {
    while (!is_root(b)) {
        const int up = parent(b), k = up >> 1;
        const int64_t above = b + step_[up];
        const bool against = up & 1;  // the parent is the lower end of the edge
        const int64_t base = against ? above : b;
        const bool along = Source == against;  // flow comes down the source tree, goes up the sink's
        const T w = capacity(k, base), f = flow_[k].data[base];
        amount = std::min(amount, static_cast<T>(along ? w - f : w + f));
        path_.push_back({base, static_cast<int32_t>(b), static_cast<int16_t>(k), along});
        b = above;
    }
    return amount;
}

// Send what fits from the root above p, over p -> q, to the root above q.
template <class T, int K>
void GridSolver<T, K>::augment(int64_t p, int d, int64_t q) {
    path_.clear();
    int64_t from = p, to = q;
    T amount = climb<true>(from, residual(p, d));
    amount = climb<false>(to, amount);
    poll_if_many(static_cast<int64_t>(path_.size()));
    amount = std::min(amount, std::min(excess_.data[from], static_cast<T>(-excess_.data[to])));

    push(p, d, amount);
    for (const Arc& arc : path_) {
        T& f = flow_[arc.k].data[arc.base];
        const T w = capacity(arc.k, arc.base);
        f += arc.along ? amount : -amount;
        set(arc.along ? backward_[arc.k] : forward_[arc.k], arc.base);
        if (f == (arc.along ? w : -w)) {
            clear(arc.along ? forward_[arc.k] : backward_[arc.k], arc.base);
            make_orphan(arc.node);
        }
    }
    if ((excess_.data[from] -= amount) == 0) make_orphan(from);
    if ((excess_.data[to] += amount) == 0) make_orphan(to);
}

template <class T, int K>
void GridSolver<T, K>::adopt() {
    ++time_;
    for (size_t i = 0; i < orphans_.size(); ++i) {
        const int64_t b = orphans_[i];
        if (i % 256 == 255) poll(256 * 64);
        if (bit(source_, b))
            adopt<true>(b);
        else
            adopt<false>(b);
    }
    orphans_.clear();
}

// Distance of b from its root, or -1 if its tree has lost the root. Marks the path.
template <class T, int K>
int32_t GridSolver<T, K>::depth(int64_t b) {
    int32_t length = 0;
    int64_t x = b;
    for (;;) {
        if (stamp_.data[x] == time_) {
            length += distance_.data[x];
            break;
        }
        if (is_root(x)) {
            stamp_.data[x] = time_;
            distance_.data[x] = 0;
            break;
        }
        if (bit(orphan_, x)) {
            poll_if_many(length);
            return -1;
        }
        x += step_[parent(x)];
        ++length;
    }
    poll_if_many(length);
    for (int32_t left = length; stamp_.data[b] != time_; b += step_[parent(b)]) {
        stamp_.data[b] = time_;
        distance_.data[b] = left--;
    }
    return length;
}

template <class T, int K>
template <bool Source>
void GridSolver<T, K>::adopt(int64_t b) {
    auto& mine = Source ? source_ : sink_;
    const unsigned towards = Source ? open_in(b) : open_out(b);  // arcs a parent could use
    const unsigned kin = neighbours(mine, b);
    int best = -1;
    int32_t shortest = std::numeric_limits<int32_t>::max();
    for (unsigned rest = towards & kin; rest; rest &= rest - 1) {
        const int d = __builtin_ctz(rest);
        const int32_t length = depth(b + step_[d]);
        if (length >= 0 && length < shortest) {
            shortest = length;
            best = d;
        }
    }
    clear(orphan_, b);
    if (best >= 0) {
        set_parent(b, best);
        stamp_.data[b] = time_;
        distance_.data[b] = shortest + 1;
        return;
    }
    clear(mine, b);
    // Contacts were queued by their source end only. That is enough for a maximal source tree;
    // a maximal sink tree must also be told of the nodes that the source tree gives up.
    if (Source && complete_sink_)
        for (unsigned rest = open_out(b) & neighbours(sink_, b); rest; rest &= rest - 1)
            push_active(b + step_[__builtin_ctz(rest)]);
    // A neighbour across the border has both arcs closed; else at least one is open.
    for (unsigned rest = (towards | (Source ? open_out(b) : open_in(b))) & kin; rest; rest &= rest - 1) {
        const int d = __builtin_ctz(rest);
        const int64_t q = b + step_[d];
        if (towards >> d & 1) push_active(q);
        if (!is_root(q) && !bit(orphan_, q) && parent(q) == (d ^ 1)) make_orphan(q);
    }
}

}  // namespace LOGSUPER_ISA
