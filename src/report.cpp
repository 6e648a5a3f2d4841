#include "report.hpp"

#include <algorithm>
#include <cmath>

#include "cell_key.hpp"
#include "text.hpp"
#include "text_table.hpp"

namespace mla_bench {
namespace {

std::string device_name(const Cell& cell, const std::vector<Device>& devices) {
  for (const Device& device : devices) {
    if (device.uuid != cell.device || device.backend != cell.backend) {
      continue;
    }
    if (cell.backend == Backend::kCpu) {
      return place_words(printable(device.name), key_of(cell).place);
    }
    const bool has_twin = std::any_of(devices.begin(), devices.end(), [&](const Device& other) {
      return other.name == device.name && other.uuid != device.uuid;
    });
    return printable(has_twin ? device.name + " (" + short_uuid(device.uuid) + ")" : device.name);
  }
  return printable(cell.device);
}

bool same_block(const Cell& a, const Cell& b) {
  return a.shares_tensors_with(b) && a.l2 == b.l2 && gpus_at_once(a) == gpus_at_once(b);
}

// How the output was compared, in a few words.
std::string check_words(const Check& check) {
  std::string words = check.bit_exact ? "bit-exact" : "ok";
  switch (check.method) {
    case CheckMethod::kFull:
      return words + ", all elements";
    case CheckMethod::kDevice:
      return words + ", all elements on the device";
    case CheckMethod::kProjection:
      return words + ", " + std::to_string(check.elements) + " elements and " +
             std::to_string(check.projected_rows) + " rows projected";
  }
  return words;
}

// No time is shown for a wrong output, whatever a document holds.
bool has_time(const Result& result) {
  return result.summary &&
         (result.status == Status::kPassed || result.status == Status::kUntrusted);
}

double reference_ns(const std::vector<const Result*>& block,
                    const std::optional<std::string>& reference) {
  double slowest = 0;
  for (const Result* result : block) {
    if (has_time(*result)) {
      if (reference && result->cell.variant == *reference) {
        return result->summary->median_ns;
      }
      slowest = std::max(slowest, result->summary->median_ns);
    }
  }
  return slowest;
}

std::string block_table(const std::vector<const Result*>& block,
                        const std::optional<std::string>& reference) {
  TextTable table{.columns = {{"variant"},
                              {"median", false},
                              {"+-95 %", false},
                              {"x floor", false},
                              {"roofline", false},
                              {"GFLOP/s", false},
                              {"GB/s", false},
                              {"speed", false},
                              {"check"}},
                  .rows = {}};
  const double base_ns = reference_ns(block, reference);
  std::string without_time;
  for (const Result* result : block) {
    const Cell& cell = result->cell;
    if (!has_time(*result)) {
      without_time += "  " + cell.variant + ": " + std::string(name_of(result->status)) + ": " +
                      printable(result->reason) + "\n";
      continue;
    }
    const Summary& summary = *result->summary;
    const double half = (summary.ci95_high_ns - summary.ci95_low_ns) / 2;
    const double bytes = cell.problem.compulsory_elements() *
                         static_cast<double>(size_of(stored_type(cell.precision)));
    const bool is_unproven = result->cold_proof && result->cold_proof->more_sets == 0;
    const std::string unproven = is_unproven ? ", cold: unproven" : "";
    const std::string trusted =
        result->status == Status::kUntrusted ? " UNTRUSTED: " + printable(result->reason) : "";
    table.rows.push_back(
        {cell.variant, human_time(summary.median_ns, summary.resolution_ns),
         std::isfinite(half) ? fixed(100 * half / summary.median_ns, 2) + " %" : "-",
         result->floors && result->floors->touch_ns > 0
             ? fixed(summary.median_ns / result->floors->touch_ns, 2)
             : "-",
         result->roofline ? fixed(100 * result->roofline->ns / summary.median_ns, 1) + " %" : "-",
         fixed(cell.problem.flops() / summary.median_ns, 1), fixed(bytes / summary.median_ns, 1),
         fixed(base_ns / summary.median_ns, 2) + "x",
         (result->check ? check_words(*result->check) : "") + unproven + trusted});
  }
  const bool lacks_reference =
      reference && std::none_of(block.begin(), block.end(), [&](const Result* result) {
        return has_time(*result) && result->cell.variant == *reference;
      });
  if (lacks_reference && !table.rows.empty()) {
    without_time += "  speed is against the slowest: " + *reference + " has no time here\n";
  }
  return (table.rows.empty() ? "" : aligned(table)) + without_time;
}

}  // namespace

std::string table(const std::vector<Result>& results, const std::vector<Device>& devices,
                  const std::optional<std::string>& reference) {
  std::string text;
  std::vector<bool> shown(results.size(), false);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (shown[i]) {
      continue;
    }
    std::vector<const Result*> block;
    for (std::size_t j = i; j < results.size(); ++j) {
      if (same_block(results[i].cell, results[j].cell)) {
        block.push_back(&results[j]);
        shown[j] = true;
      }
    }
    const Cell& cell = results[i].cell;
    const std::string cache = cell.backend == Backend::kCuda ? " L2" : " caches";
    text += (text.empty() ? "" : "\n") + device_name(cell, devices) + ", " +
            shape_words(cell.problem) + ", " + std::string(name_of(cell.precision)) + ", " +
            std::string(name_of(cell.l2)) + cache +
            (gpus_at_once(cell) > 1 ? ", " + concurrent_words(gpus_at_once(cell)) : "") + "\n" +
            block_table(block, reference);
  }
  return text;
}

}  // namespace mla_bench
