// The tensors that a cell works on: generated from a seed, or read from a safetensors file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mla_bench/precision.hpp"
#include "mla_bench/problem.hpp"
#include "safetensors.hpp"

namespace mla_bench {

// How values are drawn. Bits depend on seed, tensor, index, shape and precision alone.
//   normal    hidden of unit variance, weights of variance 1 / fan-in (Irwin-Hall sums)
//   positive  hidden in U(0, 1), weights in U(0, 2 / fan-in): errors cannot cancel
//   exact     small integers, so that every sum of products is exact in the precision and every
//             correct kernel gives the same bits in whatever order it adds
enum class Distribution { kNormal, kPositive, kExact };

inline constexpr std::array kDistributions{Distribution::kNormal, Distribution::kPositive,
                                           Distribution::kExact};

std::string_view name_of(Distribution distribution);

// Where the inputs of a run come from: `file` if set, else `distribution` and `seed`. A file's name
// says little of what is in it, so `content` belongs to it: empty where it is not known.
struct InputSource {
  Distribution distribution = Distribution::kNormal;
  std::uint64_t seed = 0;
  std::optional<std::string> file;
  std::string content = "";  // FileFacts::content

  friend bool operator==(const InputSource&, const InputSource&) = default;
};

// `exact`: hidden holds integers of at most this size; a column of a weight holds at most so many
// entries other than 0, each +-1. So |latent| <= 4 * 64 = 256, which every stored type holds, and
// |y| <= 256 * 128 = 32768 < 65504 (the largest fp16), whose sums any fp32 accumulator holds.
inline constexpr std::int64_t kExactHidden = 4;
inline constexpr std::int64_t kExactDownEntries = 64;
inline constexpr std::int64_t kExactUpEntries = 128;

// Host copies of the operator's inputs, each in `type`, row-major, in the shapes of Problem.
struct Inputs {
  Problem problem;
  StoredType type = StoredType::kF32;
  std::vector<std::byte> hidden;  // (batch * seq, model_dim)
  std::vector<std::byte> w_down;  // (model_dim, rank)
  std::vector<std::byte> w_up_k;  // (rank, kv_heads * head_dim)
  std::vector<std::byte> w_up_v;  // (rank, kv_heads * head_dim)
  // How they were drawn; nothing for a file's, of which no statistics may be assumed.
  std::optional<Distribution> distribution;
};

// Gives hidden the other sign: every right output then has the same bits with the other sign,
// whatever the arithmetic, since formats and roundings are symmetric.
void negate_hidden(Inputs& inputs);

// What a file holds.
struct FileFacts {
  Problem problem;
  Precision precision;  // fp32, bf16 or fp16, of the tensors' common dtype
  // The same for two files where name, dtype, shape and bytes of the four tensors are, whatever
  // else they hold: 16 hexadecimal digits (Fnv1a). Empty where only the header was read.
  std::string content = "";
};

// Shape and dtype of an input file: hidden (B, S, Dm) or (T, Dm), w_down (Dm, R), w_up_k and w_up_v
// (R, H*D) or (R, H, D). A two-dimensional w_up_* is split into heads by `kv_heads`, else by
// `head_dim`, else by the file's metadata "kv_heads", else it is one head.
// Throws UsageError that names the file and the tensor.
FileFacts inspect_input_file(const std::string& path, std::optional<std::int64_t> kv_heads,
                             std::optional<std::int64_t> head_dim);

// The same from the header alone.
FileFacts inspect_inputs(const TensorFile& file, std::optional<std::int64_t> kv_heads,
                         std::optional<std::int64_t> head_dim);

// The inputs of one cell. A file's values are rounded to the precision's stored type (to nearest
// even) where its dtype differs. Throws UsageError (file, also where its content is no longer the
// source's) or std::bad_alloc.
Inputs make_inputs(const InputSource& source, const Problem& problem, Precision precision);

// Writes the inputs and `kv` (2, B, S, H, D), in the inputs' stored type, as safetensors, by
// temporary file and rename. Throws UsageError that names the file.
void save_tensors(const std::string& path, const Inputs& inputs, const std::vector<std::byte>& kv);

}  // namespace mla_bench
