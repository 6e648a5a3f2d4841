// Reading and writing the safetensors format: an 8-byte little-endian header length, a JSON header,
// then the tensors' bytes. https://github.com/huggingface/safetensors#format
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "errors.hpp"
#include "mla_bench/precision.hpp"

namespace mla_bench {

// One tensor of a file: where its bytes are, counted from the start of the file.
struct TensorEntry {
  std::string name;
  std::string dtype;  // as the file spells it: "F32", "BF16", "F16", or one that we do not take
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  // byte offset in the file
  std::int64_t bytes = 0;
};

struct TensorFile {
  std::string path;
  std::vector<TensorEntry> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
};

// The format's own limit on the header, and ours on a tensor's dimensions (NumPy's is the same).
inline constexpr std::int64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::size_t kMaxDimensions = 64;

// Reads and validates the header: length, JSON (depth and size limited), shapes whose byte counts
// agree with their offsets, offsets inside the file that neither overlap nor leave holes.
// Throws UsageError that names the file, and the tensor where one is at fault.
TensorFile open_tensor_file(const std::string& path);

// The same from a stream of `file_bytes` bytes, at its start; `path` is for messages.
TensorFile read_tensor_header(std::istream& stream, std::int64_t file_bytes,
                              const std::string& path);

// The bytes of one tensor of that file.
std::vector<std::byte> read_tensor(const TensorFile& file, const TensorEntry& tensor);

// A tensor to write; `data` is shape's product times the dtype's size.
struct TensorView {
  std::string name;
  StoredType type;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

// Writes a file by temporary file and rename, so that a reader never sees half of one.
// Throws UsageError that names the file and the reason; then the temporary file is gone.
void write_tensor_file(const std::string& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata);

// Throws UsageError where no file can be written to `path`, so that this is known before the work.
void check_tensor_file_can_be_written(const std::string& path);

// For messages: a shape as "(4, 96, 256)"; and the error of a file, which says what is wrong with
// it.
std::string shape_text(const std::vector<std::int64_t>& shape);
UsageError file_error(const std::string& path, const std::string& problem);

}  // namespace mla_bench
