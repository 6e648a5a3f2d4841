#include "safetensors.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "output_file.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are little-endian in the file and are read as they lie");

using Json = nlohmann::json;

constexpr std::int64_t kLengthBytes = 8;  // the header's length, before the header
constexpr std::int64_t kAlignment = 8;    // of the first tensor, by padding the header
constexpr std::string_view kMetadataName = "__metadata__";

std::string system_reason(int code) {
  return std::system_category().message(code);
}

// ---- reading ------------------------------------------------------------------------------------

struct Dtype {
  std::string_view name;
  std::int64_t bytes;
};

// Every dtype of the format whose elements are whole bytes. Others pass unless we need the tensor.
constexpr std::array kDtypes{
    Dtype{"BOOL", 1},    Dtype{"U8", 1},  Dtype{"I8", 1},  Dtype{"F8_E4M3", 1}, Dtype{"F8_E5M2", 1},
    Dtype{"F8_E8M0", 1}, Dtype{"I16", 2}, Dtype{"U16", 2}, Dtype{"F16", 2},     Dtype{"BF16", 2},
    Dtype{"I32", 4},     Dtype{"U32", 4}, Dtype{"F32", 4}, Dtype{"I64", 8},     Dtype{"U64", 8},
    Dtype{"F64", 8},     Dtype{"C64", 8}};

std::string dtype_name(StoredType type) {
  switch (type) {
    case StoredType::kF32:
      return "F32";
    case StoredType::kBf16:
      return "BF16";
    case StoredType::kF16:
      return "F16";
  }
  return "?";
}

// A tensor as the header describes it; offsets count from the end of the header.
struct Described {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<std::int64_t>> shape;
  std::optional<std::vector<std::int64_t>> offsets;
};

struct Header {
  std::vector<Described> tensors;
  std::map<std::string, std::string> metadata;
};

// Reads {"name": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, ..} and the
// optional
// {"__metadata__": {"key": "value", ..}} event by event, so that no other shape of document,
// however deep or long, is ever built in memory. An event that does not fit ends the parse with
// `fault` set.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  Header header;
  std::string fault;

  bool null() override { return refuse("null"); }
  bool boolean(bool /*value*/) override { return refuse("a boolean"); }
  bool number_float(double /*value*/, const std::string& /*text*/) override {
    return refuse("a number that is not an integer below 2^63");
  }
  bool number_integer(std::int64_t /*value*/) override { return refuse("a negative number"); }
  bool binary(Json::binary_t& /*value*/) override { return refuse("binary data"); }

  bool number_unsigned(std::uint64_t value) override {
    if (level_ != Level::kArray) {
      return refuse("a number");
    }
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return refuse("a number that is not an integer below 2^63");
    }
    if (numbers().size() == kMaxDimensions) {
      return fail(where() + " has more than " + std::to_string(kMaxDimensions) + " entries");
    }
    numbers().push_back(static_cast<std::int64_t>(value));
    return true;
  }

  bool string(std::string& value) override {
    if (level_ == Level::kStrings) {
      header.metadata[key_] = value;
      return true;
    }
    if (level_ == Level::kTensor && key_ == "dtype") {
      header.tensors.back().dtype = value;
      return true;
    }
    return refuse("a string");
  }

  bool start_object(std::size_t /*elements*/) override {
    if (level_ == Level::kOutside) {
      level_ = Level::kTop;
      return true;
    }
    if (level_ != Level::kTop) {
      return refuse("an object");
    }
    level_ = in_metadata_ ? Level::kStrings : Level::kTensor;
    return true;
  }

  bool key(std::string& name) override {
    if (!is_new(name)) {
      return fail(level_ == Level::kTop ? "the header has two entries " + in_quotes(name)
                                        : entry() + " has two keys " + in_quotes(name));
    }
    key_ = name;
    if (level_ == Level::kTop) {
      in_metadata_ = name == kMetadataName;
      inner_keys_.clear();
      if (!in_metadata_) {
        header.tensors.emplace_back().name = name;
      }
    } else if (level_ == Level::kTensor && name != "dtype" && name != "shape" &&
               name != "data_offsets") {
      return fail(entry() + " has the unknown key " + in_quotes(name) +
                  "; it takes dtype, shape and data_offsets");
    }
    return true;
  }

  bool end_object() override {
    if (level_ == Level::kTensor) {
      const Described& tensor = header.tensors.back();
      if (!tensor.dtype || !tensor.shape || !tensor.offsets) {
        return fail(entry() + " needs all of dtype, shape and data_offsets");
      }
    }
    level_ = level_ == Level::kTop ? Level::kOutside : Level::kTop;
    return true;
  }

  bool start_array(std::size_t /*elements*/) override {
    if (level_ != Level::kTensor || key_ == "dtype") {
      return refuse("an array");
    }
    level_ = Level::kArray;
    (key_ == "shape" ? header.tensors.back().shape : header.tensors.back().offsets).emplace();
    return true;
  }

  bool end_array() override {
    level_ = Level::kTensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const Json::exception& /*error*/) override {
    return fail("the header is not valid JSON in UTF-8 at its byte " + std::to_string(position));
  }

 private:
  enum class Level { kOutside, kTop, kStrings, kTensor, kArray };

  std::vector<std::int64_t>& numbers() {
    Described& tensor = header.tensors.back();
    return key_ == "shape" ? *tensor.shape : *tensor.offsets;
  }

  bool is_new(const std::string& name) {
    return (level_ == Level::kTop ? names_ : inner_keys_).insert(name).second;
  }

  std::string entry() const {
    return in_metadata_ ? std::string(kMetadataName)
                        : "tensor " + in_quotes(header.tensors.back().name);
  }

  std::string where() const { return key_ + " of " + entry(); }

  bool fail(std::string reason) {
    fault = std::move(reason);
    return false;
  }

  bool refuse(const std::string& what) {
    switch (level_) {
      case Level::kOutside:
        return fail("the header is " + what + ", not an object of tensors");
      case Level::kTop:
        return fail(entry() + " is " + what + ", not an object");
      case Level::kStrings:
        return fail("the value of " + in_quotes(key_) + " in " + std::string(kMetadataName) +
                    " is " + what + ", not a string");
      default:
        return fail(where() + " is or holds " + what + ", but takes " +
                    (key_ == "dtype" ? "a string" : "an array of non-negative integers"));
    }
  }

  Level level_ = Level::kOutside;
  bool in_metadata_ = false;
  std::string key_;
  std::set<std::string> names_;
  std::set<std::string> inner_keys_;
};

std::optional<std::int64_t> product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) {
    return std::nullopt;
  }
  return result;
}

// Bytes that shape and dtype ask for; nothing where the product passes 2^63.
std::optional<std::int64_t> shape_bytes(const std::vector<std::int64_t>& shape,
                                        std::int64_t element_bytes) {
  // 0 times anything is 0, whatever the other dimensions' product.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    return 0;
  }
  std::optional<std::int64_t> bytes = element_bytes;
  for (const std::int64_t extent : shape) {
    bytes = bytes ? product(*bytes, extent) : bytes;
  }
  return bytes;
}

// One described tensor, checked by itself.
TensorEntry checked(const std::string& path, Described described, std::int64_t data_begin,
                    std::int64_t data_bytes) {
  const std::string name = "tensor " + in_quotes(described.name);
  const std::vector<std::int64_t>& offsets = *described.offsets;
  if (offsets.size() != 2) {
    throw file_error(path, name + ": data_offsets must be [begin, end]");
  }
  const auto [begin, end] = std::pair{offsets[0], offsets[1]};
  if (begin > end) {
    throw file_error(path, name + ": data_offsets begin at " + std::to_string(begin) +
                               ", after their end " + std::to_string(end));
  }
  if (end > data_bytes) {
    throw file_error(path, name + ": its data ends at byte " + std::to_string(end) + " of " +
                               std::to_string(data_bytes) + "; is the file cut short?");
  }
  const auto dtype = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const Dtype& known) {
    return known.name == *described.dtype;
  });
  if (dtype != kDtypes.end()) {
    const std::optional<std::int64_t> bytes = shape_bytes(*described.shape, dtype->bytes);
    if (!bytes) {
      throw file_error(
          path, name + ": shape " + shape_text(*described.shape) + " has more than 2^63 bytes");
    }
    if (*bytes != end - begin) {
      throw file_error(path, name + ": " + *described.dtype + " of shape " +
                                 shape_text(*described.shape) + " is " + std::to_string(*bytes) +
                                 " bytes, but its data_offsets hold " +
                                 std::to_string(end - begin));
    }
  }
  return {.name = std::move(described.name),
          .dtype = std::move(*described.dtype),
          .shape = std::move(*described.shape),
          .begin = data_begin + begin,
          .bytes = end - begin};
}

// Sorts the tensors by their bytes and checks that those cover the data once, without holes.
void check_coverage(const std::string& path, std::vector<TensorEntry>& tensors,
                    std::int64_t data_begin, std::int64_t file_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair{a.begin, a.bytes} < std::pair{b.begin, b.bytes};
  });
  std::int64_t covered = data_begin;
  for (const TensorEntry& tensor : tensors) {
    if (tensor.begin < covered) {
      throw file_error(path, "tensor " + in_quotes(tensor.name) + " overlaps the one before it");
    }
    if (tensor.begin > covered) {
      throw file_error(path, std::to_string(tensor.begin - covered) + " bytes before tensor " +
                                 in_quotes(tensor.name) + " belong to no tensor");
    }
    covered += tensor.bytes;
  }
  if (covered != file_bytes) {
    throw file_error(path, std::to_string(file_bytes - covered) +
                               " bytes after the last tensor belong to no tensor");
  }
}

std::int64_t size_of_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    throw file_error(path, "cannot be opened: " + system_reason(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    throw file_error(path, "is not a regular file; give a .safetensors file");
  }
  return status.st_size;
}

std::ifstream open_to_read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw file_error(path, "cannot be opened: " + system_reason(errno));
  }
  return file;
}

std::string read_header_text(std::istream& file, std::int64_t file_bytes, const std::string& path) {
  std::uint64_t length = 0;
  if (!file.read(reinterpret_cast<char*>(&length), kLengthBytes)) {
    throw file_error(path, "is shorter than the 8 bytes that open a safetensors file");
  }
  if (length > static_cast<std::uint64_t>(kMaxHeaderBytes)) {
    throw file_error(path, "its header would be " + std::to_string(length) + " bytes, over the " +
                               std::to_string(kMaxHeaderBytes) +
                               " that the format allows; is it a safetensors file?");
  }
  if (length > static_cast<std::uint64_t>(file_bytes - kLengthBytes)) {
    throw file_error(path, "its header would be " + std::to_string(length) +
                               " bytes, but the file has " + std::to_string(file_bytes) +
                               "; is it cut short, or no safetensors file?");
  }
  std::string text(length, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    throw file_error(path, "its header cannot be read: " + system_reason(errno));
  }
  if (text.empty() || text.front() != '{') {
    throw file_error(path, "its header does not begin with '{'; is it a safetensors file?");
  }
  // The parser takes a NUL for the end of its input, and would not see what follows.
  if (text.find('\0') != std::string::npos) {
    throw file_error(path, "its header holds a NUL byte");
  }
  return text;
}

// ---- writing ------------------------------------------------------------------------------------

std::string header_text(std::span<const TensorView> tensors,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) {
    header[std::string(kMetadataName)] = metadata;
  }
  std::size_t offset = 0;
  for (const TensorView& tensor : tensors) {
    if (shape_bytes(tensor.shape, size_of(tensor.type)) !=
        static_cast<std::int64_t>(tensor.data.size())) {
      throw std::invalid_argument("tensor " + tensor.name + " to write has " +
                                  std::to_string(tensor.data.size()) + " bytes, not its shape's");
    }
    header[tensor.name] = {{"dtype", dtype_name(tensor.type)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.data.size()}}};
    offset += tensor.data.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

// A file beside its final path, removed again unless it is committed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path)
      : path_(path),
        target_(replaced_by(path)),
        name_(target_.string() + ".partial-" + std::to_string(::getpid())) {
    descriptor_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor_ < 0) {
      throw error(errno);
    }
  }

  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  ~TemporaryFile() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
    if (!committed_) {
      ::unlink(name_.c_str());
    }
  }

  void write(std::span<const std::byte> data) {
    while (!data.empty()) {
      const ssize_t written = ::write(descriptor_, data.data(), data.size());
      if (written < 0 && errno != EINTR) {
        throw error(errno);
      }
      data = data.subspan(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    }
  }

  void commit() {
    // A network file system reports a full disk only here.
    if (::close(std::exchange(descriptor_, -1)) != 0 ||
        ::rename(name_.c_str(), target_.c_str()) != 0) {
      throw error(errno);
    }
    committed_ = true;
  }

 private:
  UsageError error(int code) const {
    return file_error(path_, "cannot be written: " + system_reason(code));
  }

  std::string path_;  // as the user named it
  std::filesystem::path target_;
  std::string name_;
  int descriptor_ = -1;
  bool committed_ = false;
};

}  // namespace

UsageError file_error(const std::string& path, const std::string& problem) {
  return UsageError("file " + in_quotes(path) + ": " + problem);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> extents;
  for (const std::int64_t extent : shape) {
    extents.push_back(std::to_string(extent));
  }
  return "(" + join(extents, ", ") + ")";
}

TensorFile open_tensor_file(const std::string& path) {
  const std::int64_t file_bytes = size_of_file(path);
  std::ifstream file = open_to_read(path);
  return read_tensor_header(file, file_bytes, path);
}

TensorFile read_tensor_header(std::istream& stream, std::int64_t file_bytes,
                              const std::string& path) {
  const std::string text = read_header_text(stream, file_bytes, path);
  HeaderReader reader;
  if (!Json::sax_parse(text, &reader)) {
    throw file_error(path, reader.fault);
  }
  const std::int64_t data_begin = kLengthBytes + static_cast<std::int64_t>(text.size());
  TensorFile file{.path = path, .tensors = {}, .metadata = std::move(reader.header.metadata)};
  for (Described& described : reader.header.tensors) {
    file.tensors.push_back(
        checked(path, std::move(described), data_begin, file_bytes - data_begin));
  }
  check_coverage(path, file.tensors, data_begin, file_bytes);
  return file;
}

std::vector<std::byte> read_tensor(const TensorFile& file, const TensorEntry& tensor) {
  std::ifstream stream = open_to_read(file.path);
  std::vector<std::byte> data(static_cast<std::size_t>(tensor.bytes));
  stream.seekg(tensor.begin);
  if (!stream.read(reinterpret_cast<char*>(data.data()), tensor.bytes)) {
    throw file_error(file.path, "tensor " + in_quotes(tensor.name) +
                                    " cannot be read; did the file change meanwhile?");
  }
  return data;
}

void check_tensor_file_can_be_written(const std::string& path) {
  const TemporaryFile removed_again(path);
}

void write_tensor_file(const std::string& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = header_text(tensors, metadata);
  const std::uint64_t length = header.size();
  TemporaryFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const TensorView& tensor : tensors) {
    file.write(tensor.data);
  }
  file.commit();
}

}  // namespace mla_bench
