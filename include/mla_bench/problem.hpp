// The operator's shape and what it must cost at least. Every variant is credited with the same FLOPs
// and bytes, whatever it does inside.
#pragma once

#include <cstdint>

namespace mla_bench {

// Shape of the MLA key/value up-projection, all tensors row-major and contiguous:
//
//   latent = hidden @ w_down          hidden (batch, seq, model_dim), w_down (model_dim, rank)
//   k, v   = latent @ w_up_k, w_up_v  w_up_* (rank, kv_heads * head_dim)
//   kv     = stack(k, v)              (2, batch, seq, kv_heads, head_dim)
//
// Counts are in elements, 64-bit from the first multiplication.
struct Problem {
  std::int64_t batch = 4;
  std::int64_t seq = 96;
  std::int64_t model_dim = 256;
  std::int64_t rank = 48;
  std::int64_t kv_heads = 4;
  std::int64_t head_dim = 32;

  // Rows of hidden, of the latent, of k and of v.
  constexpr std::int64_t rows() const { return batch * seq; }
  // Columns of k, and as many of v.
  constexpr std::int64_t columns() const { return kv_heads * head_dim; }

  constexpr std::int64_t hidden_count() const { return rows() * model_dim; }
  constexpr std::int64_t down_count() const { return model_dim * rank; }
  // Elements of w_up_k, and as many of w_up_v.
  constexpr std::int64_t up_count() const { return rank * columns(); }
  constexpr std::int64_t latent_count() const { return rows() * rank; }
  constexpr std::int64_t kv_count() const { return 2 * rows() * columns(); }

  // Multiplications and additions of the three products; double because it may pass 2^63.
  constexpr double flops() const {
    return 2.0 * static_cast<double>(rows()) * static_cast<double>(rank) *
           (static_cast<double>(model_dim) + 2.0 * static_cast<double>(columns()));
  }

  // Elements that must move at least: every input read once and kv written once.
  constexpr double compulsory_elements() const {
    return static_cast<double>(hidden_count()) + static_cast<double>(down_count()) +
           2.0 * static_cast<double>(up_count()) + static_cast<double>(kv_count());
  }

  friend constexpr bool operator==(const Problem&, const Problem&) = default;
};

}  // namespace mla_bench
