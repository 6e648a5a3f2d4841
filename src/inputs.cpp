#include "inputs.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "fnv1a.hpp"
#include "mla_bench/float16.hpp"
#include "philox.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

// ---- generated ----------------------------------------------------------------------------------

// A sum of eight uniform 16-bit integers (Irwin-Hall), all from one Philox block, less its mean: an
// integer below 2^19 in size, so the value below is one integer times one factor, rounded once.
constexpr int kSummands = 8;
constexpr std::int64_t kHalfWord = 1 << 16;
constexpr std::int64_t kSumMean = kSummands * (kHalfWord - 1) / 2;
constexpr double kSumVariance = kSummands * (double(kHalfWord) * kHalfWord - 1) / 12;

std::int64_t centred_sum(const PhiloxBlock& block) {
  std::int64_t sum = 0;
  for (const std::uint32_t word : block) {
    sum += (word & 0xffff) + (word >> 16);
  }
  return sum - kSumMean;
}

// The middles of 2^23 equal parts of (0, 1): each a float, neither 0 nor 1 among them.
double unit_interval(std::uint32_t word) {
  constexpr int kParts = 23;
  return (static_cast<double>(word >> (32 - kParts)) + 0.5) / (1 << kParts);
}

// Writes value(draw) for each element. OpenMP's split of the elements changes no value.
template <typename T, typename Value>
std::vector<std::byte> drawn(std::int64_t count, std::uint64_t seed, Draw purpose, Value value) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * sizeof(T));
  T* const out = reinterpret_cast<T*>(bytes.data());
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = from_float<T>(value(draw(seed, purpose, static_cast<std::uint64_t>(i))));
  }
  return bytes;
}

template <typename T>
std::vector<std::byte> normal(std::int64_t count, std::uint64_t seed, Draw purpose,
                              std::int64_t fan_in) {
  // IEEE requires of sqrt, * and / one result, so `scale` is the same everywhere.
  const double scale = 1 / std::sqrt(kSumVariance * static_cast<double>(fan_in));
  return drawn<T>(count, seed, purpose, [scale](const PhiloxBlock& block) {
    return static_cast<float>(static_cast<double>(centred_sum(block)) * scale);
  });
}

template <typename T>
std::vector<std::byte> uniform(std::int64_t count, std::uint64_t seed, Draw purpose, double upper) {
  return drawn<T>(count, seed, purpose, [upper](const PhiloxBlock& block) {
    return static_cast<float>(unit_interval(block[0]) * upper);
  });
}

// Integers -kExactHidden .. kExactHidden.
template <typename T>
std::vector<std::byte> small_integers(std::int64_t count, std::uint64_t seed) {
  return drawn<T>(count, seed, Draw::kHidden, [](const PhiloxBlock& block) {
    const auto value = static_cast<std::int64_t>(below(2 * kExactHidden + 1, block[0]));
    return static_cast<float>(value - kExactHidden);
  });
}

// A (rows, columns) weight, each column in at most `entries` blocks of consecutive rows, each block
// with one row drawn that holds -1, 0 or 1; all else is 0. Every row is some column's choice.
template <typename T>
std::vector<std::byte> sparse_signs(std::int64_t rows, std::int64_t columns, std::int64_t entries,
                                    std::uint64_t seed, Draw purpose) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows * columns) * sizeof(T));
  T* const out = reinterpret_cast<T*>(bytes.data());
  const std::int64_t block_rows = (rows + entries - 1) / entries;
  const std::int64_t blocks = (rows + block_rows - 1) / block_rows;
#pragma omp parallel for schedule(static)
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t first = block * block_rows;
    const std::int64_t extent = std::min(block_rows, rows - first);
    for (std::int64_t column = 0; column < columns; ++column) {
      const auto index = static_cast<std::uint64_t>(block * columns + column);
      const PhiloxBlock words = draw(seed, purpose, index);
      const std::int64_t row = first + below(static_cast<std::uint32_t>(extent), words[0]);
      const float sign = static_cast<float>(below(3, words[1])) - 1;
      out[row * columns + column] = from_float<T>(sign);
    }
  }
  return bytes;
}

template <typename T>
Inputs generated(const InputSource& source, const Problem& problem, StoredType type) {
  const std::uint64_t seed = source.seed;
  Inputs inputs{.problem = problem,
                .type = type,
                .hidden = {},
                .w_down = {},
                .w_up_k = {},
                .w_up_v = {},
                .distribution = source.distribution};
  const std::int64_t model_dim = problem.model_dim;
  const std::int64_t rank = problem.rank;
  switch (source.distribution) {
    case Distribution::kNormal: {
      constexpr std::int64_t kUnitVariance = 1;
      inputs.hidden = normal<T>(problem.hidden_count(), seed, Draw::kHidden, kUnitVariance);
      inputs.w_down = normal<T>(problem.down_count(), seed, Draw::kDown, model_dim);
      inputs.w_up_k = normal<T>(problem.up_count(), seed, Draw::kUpK, rank);
      inputs.w_up_v = normal<T>(problem.up_count(), seed, Draw::kUpV, rank);
      break;
    }
    case Distribution::kPositive: {
      const double down = 2 / static_cast<double>(model_dim);
      const double up = 2 / static_cast<double>(rank);
      inputs.hidden = uniform<T>(problem.hidden_count(), seed, Draw::kHidden, 1);
      inputs.w_down = uniform<T>(problem.down_count(), seed, Draw::kDown, down);
      inputs.w_up_k = uniform<T>(problem.up_count(), seed, Draw::kUpK, up);
      inputs.w_up_v = uniform<T>(problem.up_count(), seed, Draw::kUpV, up);
      break;
    }
    case Distribution::kExact: {
      const std::int64_t columns = problem.columns();
      inputs.hidden = small_integers<T>(problem.hidden_count(), seed);
      inputs.w_down = sparse_signs<T>(model_dim, rank, kExactDownEntries, seed, Draw::kDown);
      inputs.w_up_k = sparse_signs<T>(rank, columns, kExactUpEntries, seed, Draw::kUpK);
      inputs.w_up_v = sparse_signs<T>(rank, columns, kExactUpEntries, seed, Draw::kUpV);
      break;
    }
  }
  return inputs;
}

Inputs generate(const InputSource& source, const Problem& problem, StoredType type) {
  switch (type) {
    case StoredType::kBf16:
      return generated<Bf16>(source, problem, type);
    case StoredType::kF16:
      return generated<F16>(source, problem, type);
    default:
      return generated<float>(source, problem, type);
  }
}

// ---- read from a file ---------------------------------------------------------------------------

// "hidden (4, 96, 256)".
std::string described(const TensorEntry& tensor) {
  return tensor.name + " " + shape_text(tensor.shape);
}

// The four inputs' entries in a file.
struct InputEntries {
  TensorEntry hidden;
  TensorEntry w_down;
  TensorEntry w_up_k;
  TensorEntry w_up_v;
};

std::optional<StoredType> stored_type_of(const std::string& dtype) {
  if (dtype == "F32") {
    return StoredType::kF32;
  }
  if (dtype == "BF16") {
    return StoredType::kBf16;
  }
  return dtype == "F16" ? std::optional(StoredType::kF16) : std::nullopt;
}

TensorEntry find_entry(const TensorFile& file, const std::string& name) {
  for (const TensorEntry& tensor : file.tensors) {
    if (tensor.name == name) {
      return tensor;
    }
  }
  throw file_error(file.path,
                   "has no tensor '" + name + "'; it needs hidden, w_down, w_up_k and w_up_v");
}

// One input's entry, of a dtype that we take and a rank (number of dimensions) that fits it.
TensorEntry input_entry(const TensorFile& file, const std::string& name, bool may_have_three) {
  const TensorEntry tensor = find_entry(file, name);
  if (!stored_type_of(tensor.dtype)) {
    throw file_error(file.path, "tensor '" + name + "' is " + in_quotes(tensor.dtype) +
                                    "; it may be F32, BF16 or F16");
  }
  const std::size_t dimensions = tensor.shape.size();
  if (dimensions != 2 && !(dimensions == 3 && may_have_three)) {
    throw file_error(file.path, "tensor '" + name + "' has " + std::to_string(dimensions) +
                                    " dimensions; it may have 2" + (may_have_three ? " or 3" : ""));
  }
  for (const std::int64_t extent : tensor.shape) {
    if (extent == 0) {
      throw file_error(file.path, "tensor '" + name + "' is empty: " + described(tensor));
    }
  }
  return tensor;
}

InputEntries input_entries(const TensorFile& file) {
  InputEntries entries{.hidden = input_entry(file, "hidden", true),
                       .w_down = input_entry(file, "w_down", false),
                       .w_up_k = input_entry(file, "w_up_k", true),
                       .w_up_v = input_entry(file, "w_up_v", true)};
  for (const TensorEntry* tensor : {&entries.w_down, &entries.w_up_k, &entries.w_up_v}) {
    if (tensor->dtype != entries.hidden.dtype) {
      throw file_error(file.path, "mixed dtypes: hidden is " + entries.hidden.dtype + ", " +
                                      tensor->name + " is " + tensor->dtype +
                                      "; they must be alike");
    }
  }
  if (entries.w_down.shape[0] != entries.hidden.shape.back()) {
    throw file_error(file.path, "model dimensions differ: " + described(entries.hidden) +
                                    " ends with, but " + described(entries.w_down) +
                                    " does not begin with it");
  }
  for (const TensorEntry* tensor : {&entries.w_up_k, &entries.w_up_v}) {
    if (tensor->shape[0] != entries.w_down.shape[1]) {
      throw file_error(file.path, "ranks differ: " + described(entries.w_down) +
                                      " ends with, but " + described(*tensor) +
                                      " does not begin with it");
    }
  }
  if (entries.w_up_k.shape != entries.w_up_v.shape) {
    throw file_error(file.path, "shapes differ: " + described(entries.w_up_k) + ", " +
                                    described(entries.w_up_v) +
                                    "; k and v must be of one shape to be stacked");
  }
  return entries;
}

struct Heads {
  std::int64_t kv_heads;
  std::int64_t head_dim;
};

// `columns` split by a count that must divide them; `asked_by` names who gave it.
std::int64_t split_columns(const TensorFile& file, std::int64_t columns, std::int64_t by,
                           const std::string& asked_by) {
  if (by <= 0 || columns % by != 0) {
    throw file_error(file.path, asked_by + " " + std::to_string(by) + " does not divide the " +
                                    std::to_string(columns) + " columns of w_up_k");
  }
  return columns / by;
}

Heads heads_of(const TensorFile& file, const TensorEntry& w_up,
               std::optional<std::int64_t> kv_heads, std::optional<std::int64_t> head_dim) {
  const std::string_view key = "kv_heads";
  if (w_up.shape.size() == 3) {
    const Heads heads{w_up.shape[1], w_up.shape[2]};
    if (kv_heads.value_or(heads.kv_heads) != heads.kv_heads ||
        head_dim.value_or(heads.head_dim) != heads.head_dim) {
      throw file_error(file.path, described(w_up) +
                                      " has other heads than --kv-heads or --head-dim; "
                                      "leave those out");
    }
    return heads;
  }
  const std::int64_t columns = w_up.shape[1];
  if (kv_heads) {
    const Heads heads{*kv_heads, split_columns(file, columns, *kv_heads, "--kv-heads")};
    if (head_dim.value_or(heads.head_dim) != heads.head_dim) {
      throw file_error(file.path, "--kv-heads times --head-dim is not the " +
                                      std::to_string(columns) + " columns of w_up_k");
    }
    return heads;
  }
  if (head_dim) {
    return {split_columns(file, columns, *head_dim, "--head-dim"), *head_dim};
  }
  const auto found = file.metadata.find(std::string(key));
  if (found == file.metadata.end()) {
    return {1, columns};
  }
  const std::optional<std::int64_t> stated = parse_integer(found->second);
  if (!stated) {
    throw file_error(file.path, "metadata kv_heads is " + in_quotes(found->second) +
                                    ", not a number; --kv-heads overrides it");
  }
  return {*stated, split_columns(file, columns, *stated, "metadata kv_heads")};
}

Precision precision_of(StoredType type) {
  switch (type) {
    case StoredType::kBf16:
      return Precision::kBf16;
    case StoredType::kF16:
      return Precision::kFp16;
    default:
      return Precision::kFp32;
  }
}

FileFacts facts_of(const TensorFile& file, const InputEntries& entries,
                   std::optional<std::int64_t> kv_heads, std::optional<std::int64_t> head_dim) {
  const std::vector<std::int64_t>& hidden = entries.hidden.shape;
  const bool has_batch = hidden.size() == 3;
  const Heads heads = heads_of(file, entries.w_up_k, kv_heads, head_dim);
  return {.problem = {.batch = has_batch ? hidden[0] : 1,
                      .seq = has_batch ? hidden[1] : hidden[0],
                      .model_dim = hidden.back(),
                      .rank = entries.w_down.shape[1],
                      .kv_heads = heads.kv_heads,
                      .head_dim = heads.head_dim},
          .precision = precision_of(*stored_type_of(entries.hidden.dtype))};
}

template <typename From, typename To>
std::vector<std::byte> converted(const std::vector<std::byte>& from) {
  const auto count = static_cast<std::int64_t>(from.size() / sizeof(From));
  std::vector<std::byte> to(static_cast<std::size_t>(count) * sizeof(To));
  const From* const in = reinterpret_cast<const From*>(from.data());
  To* const out = reinterpret_cast<To*>(to.data());
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = from_float<To>(to_float(in[i]));
  }
  return to;
}

template <typename From>
std::vector<std::byte> converted_from(const std::vector<std::byte>& from, StoredType to) {
  switch (to) {
    case StoredType::kBf16:
      return converted<From, Bf16>(from);
    case StoredType::kF16:
      return converted<From, F16>(from);
    default:
      return converted<From, float>(from);
  }
}

// Values of one stored type in another.
std::vector<std::byte> in_type(std::vector<std::byte> data, StoredType from, StoredType to) {
  if (from == to) {
    return data;
  }
  switch (from) {
    case StoredType::kBf16:
      return converted_from<Bf16>(data, to);
    case StoredType::kF16:
      return converted_from<F16>(data, to);
    default:
      return converted_from<float>(data, to);
  }
}

// A tensor's bytes, which become a part of `content`.
std::vector<std::byte> read_into(Fnv1a& content, const TensorFile& file,
                                 const TensorEntry& tensor) {
  std::vector<std::byte> data = read_tensor(file, tensor);
  content.add(tensor.name + " " + tensor.dtype + " " + shape_text(tensor.shape) + "\n");
  content.add(data);
  return data;
}

Inputs read_inputs(const InputSource& source, const Problem& problem, StoredType type) {
  const std::string& path = *source.file;
  const TensorFile file = open_tensor_file(path);
  const InputEntries entries = input_entries(file);
  const FileFacts facts = facts_of(file, entries, problem.kv_heads, problem.head_dim);
  if (facts.problem != problem) {
    throw file_error(path, "no longer holds the shape that this run was planned with");
  }
  Fnv1a content;
  const auto read = [&](const TensorEntry& tensor) {
    return in_type(read_into(content, file, tensor), *stored_type_of(tensor.dtype), type);
  };
  Inputs inputs{.problem = problem,
                .type = type,
                .hidden = read(entries.hidden),
                .w_down = read(entries.w_down),
                .w_up_k = read(entries.w_up_k),
                .w_up_v = read(entries.w_up_v),
                .distribution = std::nullopt};
  if (!source.content.empty() && source.content != content.hex()) {
    throw file_error(path, "no longer holds the values that this run was planned with");
  }
  return inputs;
}

}  // namespace

std::string_view name_of(Distribution distribution) {
  switch (distribution) {
    case Distribution::kNormal:
      return "normal";
    case Distribution::kPositive:
      return "positive";
    case Distribution::kExact:
      return "exact";
  }
  return "?";
}

FileFacts inspect_input_file(const std::string& path, std::optional<std::int64_t> kv_heads,
                             std::optional<std::int64_t> head_dim) {
  const TensorFile file = open_tensor_file(path);
  const InputEntries entries = input_entries(file);
  FileFacts facts = facts_of(file, entries, kv_heads, head_dim);
  Fnv1a content;
  for (const TensorEntry* tensor :
       {&entries.hidden, &entries.w_down, &entries.w_up_k, &entries.w_up_v}) {
    read_into(content, file, *tensor);
  }
  facts.content = content.hex();
  return facts;
}

FileFacts inspect_inputs(const TensorFile& file, std::optional<std::int64_t> kv_heads,
                         std::optional<std::int64_t> head_dim) {
  return facts_of(file, input_entries(file), kv_heads, head_dim);
}

Inputs make_inputs(const InputSource& source, const Problem& problem, Precision precision) {
  const StoredType type = stored_type(precision);
  return source.file ? read_inputs(source, problem, type) : generate(source, problem, type);
}

void negate_hidden(Inputs& inputs) {
  constexpr std::byte kSign{0x80};  // of the last byte: elements are little-endian
  const auto size = static_cast<std::size_t>(size_of(inputs.type));
  for (std::size_t last = size - 1; last < inputs.hidden.size(); last += size) {
    inputs.hidden[last] ^= kSign;
  }
}

void save_tensors(const std::string& path, const Inputs& inputs, const std::vector<std::byte>& kv) {
  const Problem& p = inputs.problem;
  const std::array tensors{
      TensorView{"hidden", inputs.type, {p.batch, p.seq, p.model_dim}, inputs.hidden},
      TensorView{"w_down", inputs.type, {p.model_dim, p.rank}, inputs.w_down},
      TensorView{"w_up_k", inputs.type, {p.rank, p.columns()}, inputs.w_up_k},
      TensorView{"w_up_v", inputs.type, {p.rank, p.columns()}, inputs.w_up_v},
      TensorView{"kv", inputs.type, {2, p.batch, p.seq, p.kv_heads, p.head_dim}, kv}};
  // The weights are two-dimensional: without the number of heads a reader could not split them.
  write_tensor_file(path, tensors, {{"kv_heads", std::to_string(p.kv_heads)}});
}

}  // namespace mla_bench
