// The fuzzers' corpus through their targets, without a fuzzer: what was once found stays found, and
// every compiler's build keeps the promises. tests/fuzz/ has the targets, scripts/fuzz the fuzzers.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fuzz/targets.hpp"

namespace mla_bench {
namespace {

// How many files were fed. A broken promise aborts.
int replay(const std::string& folder, void (*target)(std::string_view)) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(MLA_BENCH_FUZZ_CORPUS) + "/" + folder)) {
    SCOPED_TRACE(entry.path());
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(file), {}};
    target(whole);
    // Cut short anywhere.
    for (std::size_t size = 0; size < whole.size(); size += 1 + whole.size() / 64) {
      target(std::string_view(whole).substr(0, size));
    }
    ++count;
  }
  return count;
}

TEST(FuzzCorpus, SafetensorsKeepTheirPromises) {
  EXPECT_GE(replay("safetensors", fuzz_safetensors), 10);
}

TEST(FuzzCorpus, DocumentsKeepTheirPromises) {
  EXPECT_GE(replay("documents", fuzz_documents), 10);
}

TEST(FuzzCorpus, ExportsKeepTheirPromises) {
  EXPECT_GE(replay("documents", fuzz_exports), 10);
}

}  // namespace
}  // namespace mla_bench
