// The document of a run, and files that are written whole or not at all.
#include "document.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "errors.hpp"
#include "example_result.hpp"
#include "full_disk.hpp"
#include "json.hpp"
#include "output_file.hpp"

namespace mla_bench {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

Document example_document() {
  Device cpu;
  cpu.name = "Some CPU";
  cpu.uuid = "Some CPU";
  cpu.threads = 2;
  cpu.memory = 1 << 30;
  Document document;
  document.argv = {"mla-bench", "--variant", "all"};
  document.started_at = "2026-11-29T16:03:00Z";
  document.finished_at = "2026-11-29T16:04:00Z";
  document.devices.emplace_back().device = cpu;
  document.cells = {example_result(), example_result()};
  return document;
}

Words keys_of(const Json& json) {
  Words keys;
  for (const auto& [key, value] : json.items()) {
    keys.push_back(key);
  }
  return keys;
}

// A folder that goes with the test.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("mla-bench-doc-" + std::to_string(getpid()))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }

  std::string at(const std::string& name) const { return (path_ / name).string(); }

  Words names() const {
    Words names;
    for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  fs::path path_;
};

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string refusal(const std::string& path) {
  try {
    write_whole_file(path, "text");
  } catch (const UsageError& error) {
    return error.what();
  }
  ADD_FAILURE() << "written: " << path;
  return "";
}

// ---- the document -------------------------------------------------------------------------------

TEST(Document, HasItsKeysInOrder) {
  const Json json = parse_json(to_text(example_document()), "the document");
  EXPECT_EQ(keys_of(json), (Words{"schema", "tool", "argv", "started_at", "finished_at",
                                  "ended_by_signal", "host", "cuda", "devices", "cells"}));
  EXPECT_EQ(json["schema"], "mla-bench/1");
  EXPECT_EQ(keys_of(json["tool"]),
            (Words{"name", "version", "commit", "dirty", "compiler", "cuda_compiler", "flags",
                   "cuda_architectures", "build_type"}));
  EXPECT_EQ(json["argv"], Json::array({"mla-bench", "--variant", "all"}));
  EXPECT_EQ(json["host"]["cpu"], "Some CPU");
  EXPECT_EQ(json["devices"].size(), 1u);
  EXPECT_EQ(json["cells"].size(), 2u);
  EXPECT_EQ(result_from_json(json["cells"][1]).cell.id(), example_result().cell.id());
}

TEST(Document, IsTheSameTextEveryTime) {
  EXPECT_EQ(to_text(example_document()), to_text(example_document()));
  EXPECT_EQ(to_text(example_document()).back(), '\n');
}

TEST(Document, OfARunThatLastsHasNoEnd) {
  Document document = example_document();
  document.finished_at = "";
  EXPECT_TRUE(parse_json(to_text(document), "x")["finished_at"].is_null());
}

TEST(Document, TellsTheSignalThatEndedIt) {
  Document document = example_document();
  document.ended_by_signal = 2;
  EXPECT_EQ(parse_json(to_text(document), "x")["ended_by_signal"], 2);
}

TEST(Document, BytesThatAreNoTextAreReplaced) {
  Document document = example_document();
  document.argv.push_back("--json=\xff\xfe.json");
  document.cells[0].reason = "a library said \x80";
  EXPECT_EQ(parse_json(to_text(document), "x")["argv"].size(), 4u);
}

TEST(Document, DoesNotNameTheMachine) {
  char name[256] = {};
  ASSERT_EQ(gethostname(name, sizeof name - 1), 0);
  const Json host = parse_json(to_text(example_document()), "x")["host"];
  for (const auto& [key, value] : host.items()) {
    EXPECT_NE(value, name) << key;
  }
}

TEST(Document, ItsTimeIsIsoInUtc) {
  EXPECT_TRUE(
      std::regex_match(utc_now(), std::regex(R"(20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\dZ)")));
}

TEST(Document, ItsPathHoldsNoColon) {
  const std::string path = default_document_path("2026-11-29T16:03:00Z");
  EXPECT_EQ(path.find("results/local/2026-11-29T160300-"), 0u) << path;
  EXPECT_EQ(path.find(':'), std::string::npos) << path;
  EXPECT_EQ(path.substr(path.size() - 5), ".json");
}

// ---- the file -----------------------------------------------------------------------------------

TEST(WholeFile, IsWrittenAndReplaced) {
  const Folder folder;
  write_whole_file(folder.at("a.json"), "one");
  EXPECT_EQ(contents(folder.at("a.json")), "one");
  write_whole_file(folder.at("a.json"), "another");
  EXPECT_EQ(contents(folder.at("a.json")), "another");
  EXPECT_EQ(folder.names(), Words{"a.json"}) << "no temporary file stays";
}

TEST(WholeFile, ItsFoldersAreMade) {
  const Folder folder;
  write_whole_file(folder.at("x/y/a.json"), "text");
  EXPECT_EQ(contents(folder.at("x/y/a.json")), "text");
}

TEST(WholeFile, ARelativeNameNeedsNoFolder) {
  const Folder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.at(""));
  write_whole_file("a.json", "text");
  fs::current_path(before);
  EXPECT_EQ(contents(folder.at("a.json")), "text");
}

TEST(WholeFile, AFolderIsNoFile) {
  const Folder folder;
  fs::create_directories(folder.at("sub"));
  EXPECT_NE(refusal(folder.at("sub")).find("it is a folder"), std::string::npos);
  EXPECT_EQ(folder.names(), Words{"sub"});
}

TEST(WholeFile, AFolderThatCannotBeIsNamed) {
  const Folder folder;
  write_whole_file(folder.at("file"), "in the way");
  const std::string message = refusal(folder.at("file/a.json"));
  EXPECT_NE(message.find("file/a.json"), std::string::npos) << message;
  EXPECT_NE(refusal("/proc/mla-bench/a.json").find("/proc/mla-bench/a.json"), std::string::npos);
  EXPECT_NE(refusal("/proc/a.json").find("cannot write '/proc/a.json'"), std::string::npos);
  EXPECT_EQ(contents(folder.at("file")), "in the way");
}

TEST(WholeFile, AnUnwritableFolderIsLeftAsItWas) {
  if (geteuid() == 0) {
    GTEST_SKIP() << "root may write everywhere";
  }
  const Folder folder;
  fs::create_directories(folder.at("locked"));
  fs::permissions(folder.at("locked"), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_NE(refusal(folder.at("locked/a.json")).find("Permission denied"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder.at("locked")));
}

TEST(WholeFile, AFullDiskLeavesTheOldFile) {
  const Folder folder;
  write_whole_file(folder.at("a.json"), "old");
  {
    const FullDisk full;
    EXPECT_THROW(write_whole_file(folder.at("a.json"), std::string(100'000, 'x')), UsageError);
  }
  EXPECT_EQ(contents(folder.at("a.json")), "old");
  EXPECT_EQ(folder.names(), Words{"a.json"});
}

TEST(NewFile, IsNobodyElsesThoughManyAskAtOnce) {
  const Folder folder;
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kEach = 50;
  std::vector<std::vector<std::string>> paths(kThreads);
  std::vector<std::thread> threads;
  for (std::vector<std::string>& mine : paths) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < kEach; ++i) {
        mine.push_back(write_new_file(folder.at("new/a.json"), "text"));
      }
    });
  }
  std::set<std::string> distinct;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads[i].join();
    distinct.insert(paths[i].begin(), paths[i].end());
  }
  EXPECT_EQ(distinct.size(), kThreads * kEach);
  EXPECT_TRUE(distinct.contains(folder.at("new/a.json")));
  EXPECT_TRUE(distinct.contains(folder.at("new/a-200.json")));
  EXPECT_EQ(contents(folder.at("new/a-200.json")), "text");
  EXPECT_EQ(folder.names(), Words{"new"});
}

TEST(NewFile, LeavesNothingWhereItFails) {
  const Folder folder;
  {
    const FullDisk full;
    EXPECT_THROW(write_new_file(folder.at("a.json"), std::string(100'000, 'x')), UsageError);
  }
  EXPECT_EQ(folder.names(), Words{});
  EXPECT_THROW(write_new_file("/proc/a.json", "text"), UsageError);
}

// A rename would put a plain file in the place of /dev/null; a pipe stands for it here.
TEST(WholeFile, ADeviceOrPipeIsNotReplaced) {
  const Folder folder;
  const std::string pipe = folder.at("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(refusal(pipe).find("give - for stdout"), std::string::npos);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(folder.names(), Words{"pipe"});
}

TEST(WholeFile, ALinkStaysALink) {
  const Folder folder;
  write_whole_file(folder.at("real.json"), "old");
  fs::create_symlink("real.json", folder.at("link.json"));
  write_whole_file(folder.at("link.json"), "new");
  EXPECT_TRUE(fs::is_symlink(folder.at("link.json")));
  EXPECT_EQ(contents(folder.at("real.json")), "new");
}

TEST(WholeFile, AReaderNeverSeesHalfOfOne) {
  const Folder folder;
  const std::string path = folder.at("a.json");
  const std::string even(200'000, 'a');
  const std::string odd(300'000, 'b');
  write_whole_file(path, even);
  std::atomic<bool> done = false;
  int torn = 0;
  std::thread reader([&] {
    while (!done) {
      const std::string seen = contents(path);
      torn += seen == even || seen == odd ? 0 : 1;
    }
  });
  for (int i = 0; i < 60; ++i) {
    write_whole_file(path, i % 2 == 0 ? odd : even);
  }
  done = true;
  reader.join();
  EXPECT_EQ(torn, 0);
}

}  // namespace
}  // namespace mla_bench
