// What tells two cells apart, in parts: what was to be computed, where, and by which variant. The
// index of a GPU is no part of it, since it changes from boot to boot.
#pragma once

#include <string>

#include "result.hpp"

namespace mla_bench {

// Times are compared only where all of this is the same.
struct Work {
  Problem problem;
  Precision precision = Precision::kFp32;
  L2State l2 = L2State::kHot;
  InputSource inputs;
  int gpus_at_once = 1;  // shared power and clocks cost time

  friend bool operator==(const Work&, const Work&) = default;
};

struct Place {
  Backend backend = Backend::kCpu;
  std::string device;  // uuid, or the CPU's name
  int threads = 0;     // of a CPU

  friend bool operator==(const Place&, const Place&) = default;
};

struct CellKey {
  std::string variant;
  Place place;
  Work work;
  int copy = 0;  // of selftest

  friend bool operator==(const CellKey&, const CellKey&) = default;
};

CellKey key_of(const Cell& cell);

// Texts that are equal exactly where the values are: keys for maps.
std::string id_of(const Work& work);
std::string id_of(const Place& place);
std::string id_of(const CellKey& key);

// The cell's name in other tools' files, the variant a segment of its own and the order fixed:
//   kv_up/tiled/cuda/GPU-6750905a-.../B:4/S:96/Dm:256/R:48/H:4/D:32/fp32/hot/normal:0
// and "/concurrent:2" where two GPUs were measured at the same time.
// ASCII without blanks. Equal where the keys are, and different where they differ, but for CPUs
// whose names differ in punctuation alone.
std::string export_name(const CellKey& key);

// For people: "4x96x256, rank 48, 4 heads of 32".
std::string shape_words(const Problem& problem);
// "normal inputs, seed 0", "inputs of a.safetensors (content 5f0c8a1e93b7d264)".
std::string input_words(const InputSource& inputs);
// "GPU-6750905a": what a table has room for.
std::string short_uuid(const std::string& uuid);
// "NVIDIA H200", "AMD EPYC, 2 threads".
std::string place_words(const std::string& device_name, const Place& place);
// "alone", "2 GPUs at once".
std::string concurrent_words(int gpus_at_once);

}  // namespace mla_bench
