#include "cell_key.hpp"

#include <cstdint>
#include <filesystem>

#include "text.hpp"

namespace mla_bench {
namespace {

// Letters, digits and dots; a run of anything else becomes one hyphen. Never empty.
std::string slug(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  std::string name;
  for (const char c : text.substr(0, kLongest)) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '.' || c == '_';
    if (is_plain) {
      name += c;
    } else if (!name.ends_with('-')) {
      name += '-';
    }
  }
  name.erase(name.find_last_not_of('-') + 1);
  return name.empty() ? "-" : name;
}

// FNV-1a, 64 bits (Fowler, Noll and Vo): the same on every machine, unlike std::hash.
std::string hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) {
    digits += kHex[(hash >> shift) & 15];
  }
  return digits;
}

// "B:4/S:96/.../fp32/hot": all of the work but its inputs.
std::string shape_id(const Work& work) {
  return id_of(work.problem) + "/" + std::string(name_of(work.precision)) + "/" +
         std::string(name_of(work.l2));
}

// Empty for all cells but those of selftest.
std::string copy_id(int copy) {
  return copy == 0 ? "" : "/copy:" + std::to_string(copy);
}

std::string generated_id(const InputSource& inputs) {
  return std::string(name_of(inputs.distribution)) + ":" + std::to_string(inputs.seed);
}

}  // namespace

CellKey key_of(const Cell& cell) {
  return {.variant = cell.variant,
          .place = {.backend = cell.backend, .device = cell.device, .threads = cell.threads},
          .work = {.problem = cell.problem,
                   .precision = cell.precision,
                   .l2 = cell.l2,
                   .inputs = cell.inputs,
                   .gpus_at_once = gpus_at_once(cell)},
          .copy = cell.copy};
}

std::string id_of(const Work& work) {
  // The file last, since its name may hold any character.
  return shape_id(work) + concurrent_id(work.gpus_at_once) + "/" +
         (work.inputs.file ? "file:" + *work.inputs.file : generated_id(work.inputs));
}

std::string id_of(const Place& place) {
  return std::string(name_of(place.backend)) + "/" + std::to_string(place.threads) + "/" +
         place.device;
}

std::string id_of(const CellKey& key) {
  // Lengths, since a device's name and a file's may hold any character.
  const std::string place = id_of(key.place);
  return key.variant + copy_id(key.copy) + "/" + std::to_string(place.size()) + "/" + place + "/" +
         id_of(key.work);
}

std::string export_name(const CellKey& key) {
  const std::string threads =
      key.place.backend == Backend::kCpu ? "/threads:" + std::to_string(key.place.threads) : "";
  // The file's name for people, and the hash of its path, since folders may differ.
  const auto file_id = [](const std::string& path) {
    return "file:" + slug(std::filesystem::path(path).filename().string()) + ":" + hash_of(path);
  };
  const InputSource& inputs = key.work.inputs;
  return "kv_up/" + key.variant + "/" + std::string(name_of(key.place.backend)) + "/" +
         slug(key.place.device) + threads + "/" + shape_id(key.work) + "/" +
         (inputs.file ? file_id(*inputs.file) : generated_id(inputs)) + copy_id(key.copy) +
         concurrent_id(key.work.gpus_at_once);
}

std::string shape_words(const Problem& problem) {
  return std::to_string(problem.batch) + "x" + std::to_string(problem.seq) + "x" +
         std::to_string(problem.model_dim) + ", rank " + std::to_string(problem.rank) + ", " +
         std::to_string(problem.kv_heads) + " heads of " + std::to_string(problem.head_dim);
}

std::string input_words(const InputSource& inputs) {
  return inputs.file ? "inputs of " + *inputs.file
                     : std::string(name_of(inputs.distribution)) + " inputs, seed " +
                           std::to_string(inputs.seed);
}

std::string place_words(const std::string& device_name, const Place& place) {
  return device_name + (place.backend == Backend::kCuda
                            ? ""
                            : ", " + std::to_string(place.threads) +
                                  (place.threads == 1 ? " thread" : " threads"));
}

std::string short_uuid(const std::string& uuid) {
  constexpr std::size_t kLength = 12;
  return uuid.substr(0, kLength);
}

std::string concurrent_words(int gpus_at_once) {
  return gpus_at_once > 1 ? std::to_string(gpus_at_once) + " GPUs at once" : "alone";
}

}  // namespace mla_bench
