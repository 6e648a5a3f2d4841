#include <algorithm>
#include <optional>
#include <sstream>
#include <string>

#include "errors.hpp"
#include "inputs.hpp"
#include "promise.hpp"
#include "safetensors.hpp"
#include "targets.hpp"

namespace mla_bench {
namespace {

constexpr const char* kPath = "a.safetensors";

void check_tensors(const TensorFile& file, std::int64_t file_bytes) {
  std::int64_t covered = file.tensors.empty() ? file_bytes : file.tensors.front().begin;
  promised(covered >= 8 && covered <= file_bytes, "data begin behind the header");
  for (const TensorEntry& tensor : file.tensors) {
    promised(tensor.begin == covered && tensor.bytes >= 0, "tensors follow one another",
             tensor.name);
    promised(tensor.shape.size() <= kMaxDimensions, "dimensions are few", tensor.name);
    for (const std::int64_t extent : tensor.shape) {
      promised(extent >= 0, "no extent is negative", tensor.name);
    }
    covered += tensor.bytes;
  }
  promised(covered == file_bytes, "tensors cover the file");
}

void check_inputs(const TensorFile& file, std::optional<std::int64_t> kv_heads,
                  std::optional<std::int64_t> head_dim) {
  try {
    const FileFacts facts = inspect_inputs(file, kv_heads, head_dim);
    const Problem& problem = facts.problem;
    promised(std::min({problem.batch, problem.seq, problem.model_dim, problem.rank,
                       problem.kv_heads, problem.head_dim}) >= 1,
             "sizes are positive");
    const std::int64_t size = size_of(stored_type(facts.precision));
    for (const TensorEntry& tensor : file.tensors) {
      if (tensor.name == "hidden") {
        promised(tensor.bytes == problem.hidden_count() * size, "hidden has its problem's size");
      } else if (tensor.name == "w_down") {
        promised(tensor.bytes == problem.down_count() * size, "w_down has its problem's size");
      } else if (tensor.name == "w_up_k" || tensor.name == "w_up_v") {
        promised(tensor.bytes == problem.up_count() * size, "w_up has its problem's size");
      }
    }
  } catch (const UsageError& error) {
    promised_refusal(error.what(), kPath);
  }
}

}  // namespace

void fuzz_safetensors(std::string_view bytes) {
  std::istringstream stream{std::string(bytes)};
  const auto file_bytes = static_cast<std::int64_t>(bytes.size());
  try {
    const TensorFile file = read_tensor_header(stream, file_bytes, kPath);
    check_tensors(file, file_bytes);
    check_inputs(file, {}, {});
    check_inputs(file, 2, {});
    check_inputs(file, {}, 2);
    check_inputs(file, 1, 2);
  } catch (const UsageError& error) {
    promised_refusal(error.what(), kPath);
  }
}

}  // namespace mla_bench
