#include "document_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <unordered_set>

#include "cell_key.hpp"
#include "errors.hpp"
#include "json.hpp"
#include "json_skim.hpp"
#include "problem_size.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

// What Detail::kTimes passes over, and of the rounds all but the samples.
constexpr std::array<std::string_view, 11> kBesideTimes{
    "id",      "check",      "recheck", "floors", "api_latency_ns", "roofline",
    "referee", "cold_proof", "command", "setup",  "calibration"};
// A summary is made anew of the samples, where one stands.
constexpr std::array<std::string_view, 2> kSeenOnly{"kernels", "summary"};
constexpr SkimRules kTimesAlone{
    .dropped = kBesideTimes, .emptied = kSeenOnly, .group = "rounds", .numbers = "samples_ns"};

// "2026-11-29T16:03:00Z"
bool is_time(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:ddZ";
  return std::equal(text.begin(), text.end(), kForm.begin(), kForm.end(), [](char c, char form) {
    return form == 'd' ? c >= '0' && c <= '9' : c == form;
  });
}

// As the schema has it: what names, tables and exports rely on.
bool is_variant_name(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return !text.empty() && text.size() <= kLongest && is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; });
}

void check_cell(const Result& result, const std::vector<DocumentDevice>& devices) {
  const Cell& cell = result.cell;
  if (!is_variant_name(cell.variant)) {
    throw UsageError(in_quotes(cell.variant) + " cannot be the name of a variant");
  }
  const Problem& problem = cell.problem;
  for (const std::int64_t size : {problem.batch, problem.seq, problem.model_dim, problem.rank,
                                  problem.kv_heads, problem.head_dim}) {
    if (size < 1) {
      throw UsageError("a size of the problem is " + std::to_string(size) + ", not from 1 up");
    }
  }
  if (const std::optional<std::string> why = why_too_large(problem)) {
    throw UsageError(*why);
  }
  const auto is_known = [&](Backend backend, const std::string& uuid) {
    return std::any_of(devices.begin(), devices.end(), [&](const DocumentDevice& known) {
      return known.device.backend == backend && known.device.uuid == uuid;
    });
  };
  if (!is_known(cell.backend, cell.device)) {
    throw UsageError("its device " + in_quotes(cell.device) + " is not among the devices");
  }
  std::unordered_set<std::string> gpus{cell.device};
  for (const std::string& uuid : cell.concurrent_with) {
    if (cell.backend != Backend::kCuda || !is_known(Backend::kCuda, uuid) ||
        !gpus.insert(uuid).second) {
      throw UsageError("key 'concurrent_with' names " + in_quotes(uuid) +
                       ", which is no other GPU of the document");
    }
  }
  for (std::size_t i = 0; i < result.rounds.size(); ++i) {
    for (const double ns : result.rounds[i].samples_ns) {
      if (!(ns > 0)) {
        throw UsageError("round " + std::to_string(i + 1) + " holds a time of " + shortest(ns) +
                         " ns: times are positive");
      }
    }
  }
  const bool has_right_output =
      result.status == Status::kPassed || result.status == Status::kUntrusted;
  if (has_right_output && !result.summary) {
    throw UsageError("it is " + std::string(name_of(result.status)) + " without a time");
  }
}

// The documents' cells; `samples` are those of each cell's rounds where they were lifted out.
std::vector<Result> cells_from_json(const Json& cells, std::vector<NumberLists> samples,
                                    const std::vector<DocumentDevice>& devices, Detail detail) {
  if (detail == Detail::kTimes && samples.size() != cells.size()) {
    throw UsageError("key 'rounds' is not where a document has it");
  }
  std::vector<Result> results;
  results.reserve(cells.size());
  std::unordered_set<std::string> seen;
  for (const Json& json : cells) {
    const std::size_t index = results.size();
    try {
      Result result = result_from_json(json);
      if (detail == Detail::kTimes) {
        result.rounds.reserve(samples[index].size());
        for (std::vector<double>& samples_ns : samples[index]) {
          result.rounds.emplace_back().samples_ns = std::move(samples_ns);
        }
        const bool has_samples =
            std::any_of(result.rounds.begin(), result.rounds.end(),
                        [](const Round& round) { return !round.samples_ns.empty(); });
        if (find_member(json, "summary") != nullptr && has_samples) {
          result.summary = summarize(result.rounds);
        }
      }
      check_cell(result, devices);
      if (!seen.insert(id_of(key_of(result.cell))).second) {
        throw UsageError("the cell " + in_quotes(result.cell.id()) + " stands there twice");
      }
      results.push_back(std::move(result));
    } catch (const UsageError& error) {
      throw UsageError("cells[" + std::to_string(index) + "]: " + error.what());
    }
  }
  if (results.empty()) {
    throw UsageError("it has no cells");
  }
  return results;
}

RecordedDocument document_from_json(const Json& json, std::vector<NumberLists> samples,
                                    Detail detail) {
  const auto schema = get<std::string>(json, "schema");
  if (schema != kDocumentSchema) {
    throw UsageError("it is of schema " + in_quotes(schema) + ", and this mla-bench reads '" +
                     std::string(kDocumentSchema) +
                     "': run it again, or use the mla-bench of then");
  }
  RecordedDocument recorded;
  const Json& tool = member(json, "tool");
  recorded.version = get<std::string>(tool, "version");
  recorded.commit = get<std::string>(tool, "commit");
  recorded.dirty = get<bool>(tool, "dirty");
  recorded.build_type = get_optional<std::string>(tool, "build_type").value_or("");
  recorded.flags = get_optional<std::string>(tool, "flags").value_or("");
  recorded.compiler = get_optional<std::string>(tool, "compiler").value_or("");
  recorded.cuda_compiler = get_optional<std::string>(tool, "cuda_compiler").value_or("");

  Document& document = recorded.document;
  document.argv = get<std::vector<std::string>>(json, "argv");
  document.started_at = get<std::string>(json, "started_at");
  document.finished_at = get_optional<std::string>(json, "finished_at").value_or("");
  document.merged_from = get_optional<std::vector<std::string>>(json, "merged_from")
                             .value_or(std::vector<std::string>{});
  std::vector<std::string> times = document.merged_from;
  times.push_back(document.started_at);
  if (!document.finished_at.empty()) {
    times.push_back(document.finished_at);
  }
  for (const std::string& time : times) {
    if (!is_time(time)) {
      throw UsageError(in_quotes(time) + " is no time such as 2026-11-29T16:03:00Z");
    }
  }
  document.ended_by_signal = get<int>(json, "ended_by_signal");
  const Json& cuda = member(json, "cuda");
  document.cuda_runtime = get<std::string>(cuda, "runtime");
  document.cuda_driver = get<std::string>(cuda, "driver");
  for (const Json& entry : member(json, "devices")) {
    DocumentDevice device{.device = device_from_json(entry)};
    if (const Json* setup = find_member(entry, "setup")) {
      device.setup = setup_from_json(*setup);
    }
    if (const Json* calibration = find_member(entry, "calibration")) {
      device.calibration = calibration_from_json(*calibration);
    }
    document.devices.push_back(std::move(device));
  }
  document.cells =
      cells_from_json(member(json, "cells"), std::move(samples), document.devices, detail);
  return recorded;
}

// The text of one file after another, in memory that serves them all: fresh memory would cost as
// much again as reading. It begins at a page, as the kernel's copy of a file does: to any other
// place the copy takes four times as long.
class FileText {
 public:
  std::string_view read(const std::string& path);

 private:
  struct alignas(4096) Page {
    char bytes[4096];
  };

  char* bytes() { return reinterpret_cast<char*>(pages_.get()); }
  void reserve(std::size_t bytes, std::size_t used);

  std::unique_ptr<Page[]> pages_;
  std::size_t capacity_ = 0;  // bytes
};

// Keeps the first `used` bytes.
void FileText::reserve(std::size_t bytes, std::size_t used) {
  if (bytes <= capacity_) {
    return;
  }
  const std::size_t pages = std::max(bytes, capacity_ + capacity_ / 2) / sizeof(Page) + 1;
  auto larger = std::make_unique_for_overwrite<Page[]>(pages);
  std::copy_n(pages_.get(), (used + sizeof(Page) - 1) / sizeof(Page), larger.get());
  pages_ = std::move(larger);
  capacity_ = pages * sizeof(Page);
}

std::string_view FileText::read(const std::string& path) {
  const auto refuse = [&path](const std::string& why) -> UsageError {
    return UsageError("cannot read '" + printable(path) + "': " + why);
  };
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    throw refuse(strerror(errno));
  }
  // Until its end and not by its size, since it may be a pipe: compare <(ssh gpu-box cat a.json).
  constexpr std::size_t kStep = std::size_t{1} << 20;
  struct stat facts = {};
  if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode)) {
    reserve(std::min(static_cast<std::size_t>(facts.st_size), kLargestDocument) + kStep, 0);
  }
  std::size_t size = 0;
  ssize_t count = 0;
  do {
    reserve(size + kStep, size);
    do {
      count = ::read(file, bytes() + size, kStep);
    } while (count < 0 && errno == EINTR);
    size += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  } while (count > 0 && size <= kLargestDocument);
  const int error = errno;
  close(file);
  if (count < 0) {
    throw refuse(strerror(error));
  }
  if (size > kLargestDocument) {
    throw refuse("it is larger than " + human_bytes(static_cast<double>(kLargestDocument)) +
                 ", and no document is");
  }
  return {bytes(), size};
}

bool has_copies(const Document& document) {
  return std::any_of(document.cells.begin(), document.cells.end(), [](const Result& result) {
    return result.cell.copy != 0 || result.cell.planted != Planted{};
  });
}

// Whether a run of the one began when one of the other did.
bool may_share_a_run(const Document& a, const Document& b) {
  const std::vector<std::string> of_a = starts_of(a);
  const std::vector<std::string> of_b = starts_of(b);
  return std::find_first_of(of_a.begin(), of_a.end(), of_b.begin(), of_b.end()) != of_a.end();
}

// By what they hold and not by their names, which may be links or copies: whether a cell of the one
// begins with a round of the other.
bool are_of_one_run(const Document& a, const Document& b) {
  const auto holds = [](const Result& whole, const Result& part) {
    return !part.rounds.empty() &&
           std::any_of(whole.rounds.begin(), whole.rounds.end(), [&](const Round& round) {
             return round.samples_ns == part.rounds.front().samples_ns;
           });
  };
  return may_share_a_run(a, b) &&
         std::any_of(a.cells.begin(), a.cells.end(), [&](const Result& one) {
           return std::any_of(b.cells.begin(), b.cells.end(), [&](const Result& other) {
             return (holds(one, other) || holds(other, one)) &&
                    key_of(one.cell) == key_of(other.cell);
           });
         });
}

void refuse_repeats(std::span<const RecordedDocument> documents) {
  for (std::size_t i = 0; i < documents.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const std::string& first = documents[j].path;
      const std::string& path = documents[i].path;
      if (first == path) {
        throw UsageError("'" + printable(path) + "' is named twice");
      }
      if (are_of_one_run(documents[j].document, documents[i].document)) {
        throw UsageError("'" + printable(path) + "' holds the measurements of '" +
                         printable(first) + "': leave one of them out");
      }
    }
  }
}

}  // namespace

RecordedDocument document_from_text(std::string_view text, const std::string& path, Detail detail) {
  const std::string name = "'" + printable(path) + "'";
  SkimmedJson skimmed;
  if (detail == Detail::kTimes) {
    skimmed = skim_json(text, kTimesAlone, name);
    text = skimmed.text;
  }
  const Json json = parse_json(text, name);
  try {
    RecordedDocument recorded = document_from_json(json, std::move(skimmed.groups), detail);
    recorded.path = path;
    return recorded;
  } catch (const UsageError& error) {
    throw UsageError(name + " is no document that mla-bench can use: " + error.what());
  }
}

std::vector<RecordedDocument> read_documents(std::span<const std::string> paths, Detail detail,
                                             Origin origin) {
  std::vector<RecordedDocument> documents(paths.size());
  std::vector<std::exception_ptr> errors(paths.size());
  // An exception must not leave the loop of several threads.
#pragma omp parallel
  {
    FileText text;
#pragma omp for schedule(dynamic)
    for (std::size_t i = 0; i < paths.size(); ++i) {
      try {
        documents[i] = document_from_text(text.read(paths[i]), paths[i], detail);
        if (origin == Origin::kRun && has_copies(documents[i].document)) {
          throw UsageError("'" + printable(paths[i]) +
                           "' is of mla-bench selftest: what it planted is in the times, which are "
                           "not the variants' own");
        }
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) {
      std::rethrow_exception(error);
    }
  }
  refuse_repeats(documents);
  return documents;
}

}  // namespace mla_bench
