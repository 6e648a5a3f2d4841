// Which problems can be counted at all, for whoever takes sizes from a stranger.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mla_bench/problem.hpp"

namespace mla_bench {

// Why the counts and bytes of a problem of positive sizes would pass 64 bits; nothing where they do
// not. Bytes are those of fp64, as the reference holds its tensors.
inline std::optional<std::string> why_too_large(const Problem& p) {
  struct Tensor {
    std::string_view name;
    std::array<std::int64_t, 5> sizes;
  };
  for (const Tensor& tensor : {Tensor{"hidden", {p.batch, p.seq, p.model_dim, 1, 1}},
                               Tensor{"w_down", {p.model_dim, p.rank, 1, 1, 1}},
                               Tensor{"w_up", {p.rank, p.kv_heads, p.head_dim, 2, 1}},
                               Tensor{"the latent", {p.batch, p.seq, p.rank, 1, 1}},
                               Tensor{"kv", {2, p.batch, p.seq, p.kv_heads, p.head_dim}}}) {
    std::int64_t bytes = sizeof(double);
    for (const std::int64_t size : tensor.sizes) {
      if (__builtin_mul_overflow(bytes, size, &bytes)) {
        return "the sizes are too large: " + std::string(tensor.name) +
               " would have more than 2^63 bytes";
      }
    }
  }
  // Sums of the tensors' bytes, and of a cache's to them, are formed in 64 bits too.
  if (sizeof(double) * p.compulsory_elements() > 0x1p61) {
    return "the sizes are too large: the tensors together would have more than 2^61 bytes";
  }
  return std::nullopt;
}

}  // namespace mla_bench
