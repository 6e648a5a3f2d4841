// From options to the cells of a run, each with the reason why it will be skipped, if it will. A
// pure function of the options, the devices and the registry: nothing is allocated or launched.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "executor.hpp"
#include "options.hpp"
#include "result.hpp"

namespace mla_bench {

struct PlannedCell {
  Cell cell;
  std::string skip;  // why it is not run; empty where it is
};

struct Plan {
  std::vector<PlannedCell> cells;     // cells that share tensors stand together
  std::vector<std::string> warnings;  // one line each
};

// Throws UsageError for names, sizes and combinations that can never work, and NoDeviceError where
// a device was asked for that is not here.
Plan make_plan(const RunOptions& options, const DeviceList& devices,
               std::span<const Listed> registry, const std::optional<FileFacts>& file);

// The devices that were asked for, in that order, and a warning where `auto` found only the CPU.
// Throws UsageError where one is named twice (unless by `auto`) or a UUID's beginning fits several,
// and NoDeviceError where one is not here.
std::vector<Device> choose_devices(std::span<const DeviceRequest> requests,
                                   const DeviceList& devices, std::vector<std::string>& warnings);

// Why the variant cannot run there, by its own word, or because this program has machine code for
// other `architectures` (DeviceList::cuda_architectures) alone; nothing where it can.
std::optional<std::string> why_not(const Variant& variant, const Problem& problem,
                                   Precision precision, const Device& device,
                                   const std::string& architectures);

// Why this variant cannot run this cell there: the same, the device's memory, or the time that it
// is predicted to take; empty where it can.
std::string reason_to_skip(const Variant& variant, const Cell& cell, const Device& device,
                           const Device& host, const std::string& architectures, double seconds,
                           bool force);

// A pessimistic guess of one launch: executed FLOPs over a small part of the device's peak.
double predicted_launch_s(const Variant& variant, const Problem& problem, const Device& device);

// Host and device memory that a cell needs at most, in bytes.
double predicted_host_bytes(const Problem& problem, Precision precision);
double predicted_device_bytes(const Variant& variant, const Cell& cell, const Device& device);

// The plan as text, a line a cell: for --dry-run.
std::string describe(const Plan& plan);

}  // namespace mla_bench
