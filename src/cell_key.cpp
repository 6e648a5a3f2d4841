#include "cell_key.hpp"

#include <filesystem>

#include "fnv1a.hpp"
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

std::string hash_of(std::string_view text) {
  Fnv1a hash;
  hash.add(text);
  return hash.hex();
}

// A file's name and its content: equal where both are.
std::string file_id(const InputSource& inputs) {
  return inputs.content + ":" + *inputs.file;
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
         (work.inputs.file ? "file:" + file_id(work.inputs) : generated_id(work.inputs));
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
  // The file's name for people, and a hash, since folders and contents may differ.
  const auto file_name = [](const InputSource& inputs) {
    return "file:" + slug(std::filesystem::path(*inputs.file).filename().string()) + ":" +
           hash_of(inputs.content.empty() ? *inputs.file : file_id(inputs));
  };
  const InputSource& inputs = key.work.inputs;
  return "kv_up/" + key.variant + "/" + std::string(name_of(key.place.backend)) + "/" +
         slug(key.place.device) + threads + "/" + shape_id(key.work) + "/" +
         (inputs.file ? file_name(inputs) : generated_id(inputs)) + copy_id(key.copy) +
         concurrent_id(key.work.gpus_at_once);
}

std::string shape_words(const Problem& problem) {
  return std::to_string(problem.batch) + "x" + std::to_string(problem.seq) + "x" +
         std::to_string(problem.model_dim) + ", rank " + std::to_string(problem.rank) + ", " +
         std::to_string(problem.kv_heads) + " heads of " + std::to_string(problem.head_dim);
}

std::string input_words(const InputSource& inputs) {
  const std::string content = inputs.content.empty() ? "" : " (content " + inputs.content + ")";
  return inputs.file ? "inputs of " + *inputs.file + content
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
