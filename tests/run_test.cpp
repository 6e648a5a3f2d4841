// The whole program, from outside, with planted faults: mla-bench-faulty is src/main.cpp with
// fault_registry.cpp in the place of the real variants.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "json.hpp"
#include "late_faults.hpp"
#include "processes.hpp"
#include "text.hpp"

namespace mla_bench {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The program in a folder of its own, which goes with the test.
class Program {
 public:
  Program() {
    std::string name = (fs::temp_directory_path() / "mla-bench-run-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    fs::remove_all(folder_);
  }

  void start(Words words, const std::string& stdout_to = "stdout") {
    words.insert(words.begin(), "mla-bench");
    std::vector<char*> argv;
    for (std::string& word : words) {
      argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      const int flags = O_CREAT | O_WRONLY | O_TRUNC;
      if (chdir(folder_.c_str()) == 0 && dup2(open(stdout_to.c_str(), flags, 0600), 1) == 1 &&
          dup2(open("stderr", flags, 0600), 2) == 2) {
        execv(MLA_BENCH_FAULTY, argv.data());
      }
      _exit(126);
    }
  }

  // Its exit code, or the negative signal that ended it.
  int wait() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  int run(const Words& words, const std::string& stdout_to = "stdout") {
    start(words, stdout_to);
    return wait();
  }

  pid_t pid() const { return pid_; }
  std::string out() const { return contents(folder_ / "stdout"); }
  std::string err() const { return contents(folder_ / "stderr"); }
  Json document() const { return parse_json(contents(folder_ / "out.json"), "out.json"); }

  bool has_document() const { return fs::exists(folder_ / "out.json"); }
  // Left-over temporary files would be here too.
  Words names() const {
    Words names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  fs::path folder_;
  pid_t pid_ = -1;
};

Words line(const std::string& variants, const Words& more = {}, int rounds = 1) {
  Words words{"--variant", variants, "--device",   "cpu",     "--threads",   "1",
              "--batch",   "1",      "--seq",      "3",       "--model-dim", "4",
              "--rank",    "2",      "--kv-heads", "1",       "--head-dim",  "4",
              "--warmup",  "0",      "--json",     "out.json"};
  words.insert(words.end(), {"--rounds", std::to_string(rounds)});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::map<std::string, std::string> statuses(const Json& document) {
  std::map<std::string, std::string> all;
  for (const Json& cell : document["cells"]) {
    all[cell["variant"].get<std::string>()] = cell["status"].get<std::string>();
  }
  return all;
}

std::string reason(const Json& document, const std::string& variant) {
  for (const Json& cell : document["cells"]) {
    if (cell["variant"] == variant) {
      return cell["reason"].get<std::string>();
    }
  }
  return "not there";
}

#define EXPECT_SAYS(message, part) \
  EXPECT_NE((message).find(part), std::string::npos) << "it says: " << (message)

TEST(Run, EveryFaultCostsOnlyItsOwnCell) {
  const LateFaults late_faults;
  late_faults.come();
  const std::map<std::string, std::string> expected{
      {"right", "passed"},
      {"is_slow", "passed"},
      {"prints", "passed"},
      {"differs_by_set", "passed"},    // hot: one set
      {"wrong_in_one_set", "passed"},  // hot: one set
      {"trespasses_in_one_set", "passed"},
      {"writes_nothing", "incorrect"},
      {"one_element_wrong", "incorrect"},
      {"writes_nan", "incorrect"},
      {"swaps_k_and_v", "incorrect"},
      {"writes_before_kv", "incorrect"},
      {"writes_after_kv", "incorrect"},
      {"modifies_input", "incorrect"},
      {"modifies_input_later", "incorrect"},
      {"right_once_only", "incorrect"},
      {"cannot_run", "skipped"},
      {"no_memory", "skipped"},
      {"no_memory_in_launch", "skipped"},
      {"left_out", "skipped"},
      {"throws", "failed"},
      {"throws_no_exception", "failed"},
      {"throws_later", "failed"},
      {"crashes", "failed"},
      {"crashes_later", "failed"},
      {"exits", "failed"},
      {"hangs", "failed"},
      {"hangs_later", "failed"},
  };
  Words faults;
  for (const auto& [variant, status] : expected) {
    faults.push_back(variant);
  }
  Program program;
  EXPECT_EQ(program.run(line(join(faults, ","), {"--timeout", "3"})), 3) << program.err();
  const Json document = program.document();
  EXPECT_EQ(statuses(document), expected);
  for (const auto& [variant, part] :
       std::map<std::string, std::string>{{"writes_before_kv", "guard band before"},
                                          {"writes_after_kv", "guard band after"},
                                          {"modifies_input", "w_down"},
                                          {"modifies_input_later", "w_down"},
                                          {"right_once_only", "the timed launches: "},
                                          {"cannot_run", "it never can"},
                                          {"left_out", "this build left it out"},
                                          {"no_memory", "memory"},
                                          {"throws", "the launch was refused"},
                                          {"throws_later", "the launch was refused later"},
                                          {"throws_no_exception", "signal 6"},
                                          {"crashes", "signal 11"},
                                          {"crashes_later", "signal 11"},
                                          {"exits", "code 7"},
                                          {"hangs", "no answer for 3 s"},
                                          {"hangs_later", "no answer for 3 s"}}) {
    EXPECT_SAYS(reason(document, variant), part);
  }
  EXPECT_EQ(document["ended_by_signal"], 0);
  EXPECT_TRUE(document["finished_at"].is_string());
  for (const Json& cell : document["cells"]) {
    const bool passed = cell["status"] == "passed";
    EXPECT_EQ(cell.contains("summary"), passed) << cell["id"];
    EXPECT_EQ(cell["reason"] == "", passed) << cell["id"];
  }
  EXPECT_SAYS(program.out(), "crashes: failed: its process was ended by signal 11");
  EXPECT_EQ(program.out().find("no document"), std::string::npos);
  EXPECT_EQ(program.names(), (Words{"out.json", "stderr", "stdout"}));
}

// A worker that dies takes with it what was open in it; the innocent are opened again.
TEST(Run, CellsOpenInALostWorkerAreOpenedAgain) {
  for (const std::string fault : {"crashes", "crashes_later", "throws_later"}) {
    const LateFaults late_faults;
    Program program;
    program.start(line("right,prints,differs_by_set," + fault, {}, 8));
    ASSERT_TRUE(comes_true([&] { return program.has_document(); }));
    usleep(300'000);
    late_faults.come();
    EXPECT_EQ(program.wait(), 3);
    const Json document = program.document();
    for (const Json& cell : document["cells"]) {
      const bool innocent = cell["variant"] != fault;
      EXPECT_EQ(cell["status"], innocent ? "passed" : "failed") << cell["id"] << cell["reason"];
      if (innocent) {
        EXPECT_EQ(cell["rounds"].size(), 8u) << cell["id"];
      }
    }
  }
}

// Documents are published: a time beside a wrong answer would be read as one.
TEST(Run, NoTimeIsInTheDocumentOfAWrongCell) {
  Program program;
  EXPECT_EQ(program.run(line("right_once_only")), 3);
  const Json cell = program.document()["cells"][0];
  EXPECT_EQ(cell["status"], "incorrect");
  EXPECT_EQ(cell["rounds"].size(), 0u);
  EXPECT_FALSE(cell.contains("summary"));
}

TEST(Run, ACleanRunEndsWithZero) {
  Program program;
  EXPECT_EQ(program.run(line("right")), 0) << program.err();
  EXPECT_EQ(program.run(line("right,cannot_run,left_out")), 0) << "skipped cells are fine";
  EXPECT_SAYS(program.out(), "cannot_run: skipped: it never can");
  EXPECT_SAYS(program.err(), "wrote out.json");
}

TEST(Run, NothingThatCouldRunIsCode77) {
  Program program;
  EXPECT_EQ(program.run(line("cannot_run,left_out")), 77);
  EXPECT_EQ(program.document()["cells"].size(), 2u);
}

TEST(Run, TheDocumentOnStdoutIsAllThatIsThere) {
  Program program;
  Words words = line("right,prints");
  *std::find(words.begin(), words.end(), "out.json") = "-";
  EXPECT_EQ(program.run(words), 0);
  EXPECT_EQ(parse_json(program.out(), "stdout")["cells"].size(), 2u);
  EXPECT_SAYS(program.err(), "GFLOP/s");
}

TEST(Run, ADryRunRunsNothing) {
  Program program;
  EXPECT_EQ(program.run(line("all", {"--dry-run"})), 0);
  EXPECT_SAYS(program.out(), "crashes/cpu/B:1/S:3/Dm:4/R:2/H:1/D:4/fp32/hot\n");
  EXPECT_SAYS(program.out(), "skipped: it never can\n");
  EXPECT_FALSE(program.has_document());
}

TEST(Run, QuietSaysNothing) {
  Program program;
  EXPECT_EQ(program.run(line("right", {"--quiet"})), 0);
  EXPECT_EQ(program.out() + program.err(), "");
  EXPECT_EQ(program.document()["cells"].size(), 1u);
}

TEST(Run, ADocumentThatCannotBeWrittenEndsTheRunFirst) {
  Program program;
  Words words = line("hangs");
  *std::find(words.begin(), words.end(), "out.json") = "/proc/nowhere/out.json";
  EXPECT_EQ(program.run(words), 2);
  EXPECT_SAYS(program.err(), "/proc/nowhere/out.json");
  const std::string told = program.err();
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
}

TEST(Run, AFullStdoutIsToldAndTheDocumentIsWhole) {
  Program program;
  EXPECT_EQ(program.run(line("right"), "/dev/full"), 2);
  EXPECT_SAYS(program.err(), "stdout");
  EXPECT_EQ(statuses(program.document())["right"], "passed");
}

TEST(Run, ASignalEndsItWithAWholeDocument) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    Program program;
    program.start(line("right,hangs", {"--timeout", "60"}));
    // "right" is open and "hangs" is being opened when the worker sleeps.
    ASSERT_TRUE(comes_true([&] { return program.has_document(); }));
    usleep(100'000);
    const std::vector<pid_t> workers = children_of(program.pid());
    kill(program.pid(), number);
    EXPECT_EQ(program.wait(), 128 + number);
    const Json document = program.document();
    EXPECT_EQ(document["ended_by_signal"], number);
    EXPECT_TRUE(document["finished_at"].is_string());
    for (const auto& [variant, status] : statuses(document)) {
      EXPECT_EQ(status, "failed") << variant;
      EXPECT_NE(reason(document, variant), "");
    }
    for (const pid_t worker : workers) {
      EXPECT_FALSE(is_alive(worker));
    }
    EXPECT_EQ(program.names(), (Words{"out.json", "stderr", "stdout"}));
  }
}

TEST(Run, CtrlCReachesTheWorkerTooAndChangesNothing) {
  Program program;
  program.start(line("is_slow", {}, 1000));
  ASSERT_TRUE(comes_true([&] { return program.has_document(); }));
  usleep(1'000'000);  // into its rounds, even on a busy machine
  for (const pid_t worker : children_of(program.pid())) {
    kill(worker, SIGINT);
  }
  kill(program.pid(), SIGINT);
  EXPECT_EQ(program.wait(), 130);
  // On a loaded machine the cell may not have got as far as to be measured.
  const std::string why = reason(program.document(), "is_slow");
  EXPECT_TRUE(why.find("interrupted") != why.npos || why.find("before it was measured") != why.npos)
      << why;
}

// From the first moment on: either the signal's own end, before it is noted, or 130.
TEST(Run, ASignalAtAnyMomentIsNoError) {
  for (int i = 0; i < 12; ++i) {
    Program program;
    program.start(line("right", {}, 3));
    usleep(static_cast<useconds_t>(i) * 4000);
    kill(program.pid(), SIGINT);
    const int code = program.wait();
    EXPECT_TRUE(code == 130 || code == -SIGINT || code == 0) << code << ": " << program.err();
    EXPECT_EQ(program.err().find("exception"), std::string::npos) << program.err();
    if (program.has_document()) {
      EXPECT_EQ(program.document()["cells"].size(), 1u);
    }
  }
}

TEST(Run, AWorkerKilledAtAnyMomentCostsOneCell) {
  for (int i = 0; i < 10; ++i) {
    Program program;
    program.start(line("right,differs_by_set", {}, 2));
    ASSERT_TRUE(comes_true([&] { return program.has_document(); }));
    usleep(static_cast<useconds_t>(i) * 40'000);
    for (const pid_t worker : children_of(program.pid())) {
      kill(worker, SIGKILL);
    }
    const int code = program.wait();
    const Json document = program.document();
    int passed = 0;
    for (const auto& [variant, status] : statuses(document)) {
      passed += status == "passed" ? 1 : 0;
      if (status != "passed") {
        EXPECT_SAYS(reason(document, variant), "signal 9");
      }
    }
    EXPECT_GE(passed, 1) << i;
    EXPECT_EQ(code, passed == 2 ? 0 : 3);
  }
}

TEST(Run, AKilledProgramLeavesAWholeDocumentAndNoWorker) {
  Program program;
  program.start(line("right,is_slow", {}, 1000));
  ASSERT_TRUE(comes_true([&] { return program.has_document(); }));
  usleep(200'000);
  const std::vector<pid_t> workers = children_of(program.pid());
  EXPECT_EQ(workers.size(), 1u);
  kill(program.pid(), SIGKILL);
  EXPECT_EQ(program.wait(), -SIGKILL);
  const Json document = program.document();
  EXPECT_TRUE(document["finished_at"].is_null());
  EXPECT_EQ(document["cells"].size(), 2u);
  for (const pid_t worker : workers) {
    EXPECT_TRUE(comes_true([&] { return !is_alive(worker); }));
  }
}

}  // namespace
}  // namespace mla_bench
