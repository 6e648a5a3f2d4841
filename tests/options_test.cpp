// The command line as values, and every way to get it wrong told in one line that helps.
#include "options.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "errors.hpp"

namespace mla_bench {
namespace {

using Words = std::vector<std::string>;
using Sizes = std::vector<std::int64_t>;

Options parse(const Words& words) {
  std::vector<const char*> argv{"mla-bench"};
  for (const std::string& word : words) {
    argv.push_back(word.c_str());
  }
  return parse_options(argv);
}

RunOptions run(const Words& words) {
  return std::get<RunOptions>(parse(words));
}

// What the refusal says; fails the test where the line is taken, or refused in any other way.
std::string refusal(const Words& words) {
  try {
    parse(words);
  } catch (const UsageError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  ADD_FAILURE() << "taken: " << (words.empty() ? "" : words.front());
  return "";
}

#define EXPECT_SAYS(message, part) \
  EXPECT_NE((message).find(part), std::string::npos) << "it says: " << (message)

TEST(Options, DefaultIsToRunEverythingOnce) {
  const RunOptions options = run({});
  EXPECT_TRUE(options.variants.empty());
  EXPECT_TRUE(options.precisions.empty());
  ASSERT_EQ(options.devices.size(), 1u);
  EXPECT_EQ(options.devices[0].kind, DeviceRequest::Kind::kAuto);
  EXPECT_EQ(options.l2_states, std::vector{L2State::kHot});
  EXPECT_TRUE(options.batch.empty());
  EXPECT_EQ(options.inputs, InputSource{});
  EXPECT_FALSE(options.json || options.save || options.reference || options.threads);
  EXPECT_FALSE(options.quiet || options.dry_run || options.force || options.strict);
  EXPECT_EQ(options.measuring.rounds, std::nullopt);
}

TEST(Options, ReadsAWholeLine) {
  const RunOptions options = run({"run",
                                  "--variant",
                                  "naive,tiled",
                                  "--precision",
                                  "fp32,bf16",
                                  "--device",
                                  "cpu,cuda:3",
                                  "--l2",
                                  "both",
                                  "--threads",
                                  "2",
                                  "--batch",
                                  "1",
                                  "--seq",
                                  "96,192",
                                  "--model-dim",
                                  "2048",
                                  "--rank",
                                  "512",
                                  "--kv-heads",
                                  "16",
                                  "--head-dim",
                                  "128",
                                  "--inputs",
                                  "exact",
                                  "--seed",
                                  "18446744073709551615",
                                  "--json",
                                  "-",
                                  "--reference",
                                  "naive",
                                  "--rounds",
                                  "7",
                                  "--warmup",
                                  "0",
                                  "--time-budget=2.5",
                                  "--timeout",
                                  "10",
                                  "--precision-target",
                                  "1e-3",
                                  "--quiet",
                                  "--dry-run",
                                  "--force",
                                  "--strict",
                                  "--save",
                                  "out.safetensors"});
  EXPECT_EQ(options.variants, (Words{"naive", "tiled"}));
  EXPECT_EQ(options.precisions, (std::vector{Precision::kFp32, Precision::kBf16}));
  ASSERT_EQ(options.devices.size(), 2u);
  EXPECT_EQ(name_of(options.devices[0]), "cpu");
  EXPECT_EQ(name_of(options.devices[1]), "cuda:3");
  EXPECT_EQ(options.l2_states, (std::vector{L2State::kHot, L2State::kCold}));
  EXPECT_EQ(options.threads, 2);
  EXPECT_EQ(options.batch, Sizes{1});
  EXPECT_EQ(options.seq, (Sizes{96, 192}));
  EXPECT_EQ(options.model_dim, Sizes{2048});
  EXPECT_EQ(options.rank, Sizes{512});
  EXPECT_EQ(options.kv_heads, Sizes{16});
  EXPECT_EQ(options.head_dim, Sizes{128});
  EXPECT_EQ(options.inputs.distribution, Distribution::kExact);
  EXPECT_EQ(options.inputs.seed, 18446744073709551615u);
  EXPECT_EQ(options.json, "-");
  EXPECT_EQ(options.save, "out.safetensors");
  EXPECT_EQ(options.reference, "naive");
  EXPECT_EQ(options.measuring.rounds, 7);
  EXPECT_EQ(options.measuring.warmup_s, 0);
  EXPECT_EQ(options.measuring.time_budget_s, 2.5);
  EXPECT_EQ(options.measuring.timeout_s, 10);
  EXPECT_EQ(options.measuring.precision_target, 1e-3);
  EXPECT_TRUE(options.quiet && options.dry_run && options.force && options.strict);
}

TEST(Options, FileNamesMayHoldCommasAndSpaces) {
  EXPECT_EQ(run({"--json", "a,b c.json"}).json, "a,b c.json");
  EXPECT_EQ(run({"--input", "x,y.safetensors"}).inputs.file, "x,y.safetensors");
}

TEST(Options, AllIsEveryVariantAndStandsAlone) {
  EXPECT_TRUE(run({"--variant", "all"}).variants.empty());
  EXPECT_SAYS(refusal({"--variant", "all,bogus"}), "--variant");
}

TEST(Options, ListsHaveNoEmptyItems) {
  for (const std::string list : {"", ",", "96,", ",96", "96,,192"}) {
    for (const std::string option : {"variant", "precision", "device", "seq", "inputs"}) {
      EXPECT_SAYS(refusal({"--" + option + "=" + list}), "--" + option);
    }
  }
}

TEST(Options, SizesAreWholePositiveAndInRange) {
  for (const std::string option : {"batch", "seq", "model-dim", "rank", "kv-heads", "head-dim"}) {
    for (const std::string size :
         {"0", "-1", "9223372036854775808", "1e3", "1.5", "0x10", " 4", "4 ", "many", "96,0"}) {
      EXPECT_SAYS(refusal({"--" + option, size}), "--" + option + " takes whole numbers");
    }
  }
  EXPECT_EQ(run({"--seq", "9223372036854775807"}).seq, Sizes{9223372036854775807});
}

TEST(Options, NumbersAreNotReadByPrefix) {
  EXPECT_SAYS(refusal({"--precision-target", "1e-3x"}), "'1e-3x'");
  EXPECT_SAYS(refusal({"--time-budget", "0,5"}), "'0,5'");
  EXPECT_SAYS(refusal({"--warmup", "0,5"}), "'0,5'");
  EXPECT_SAYS(refusal({"--rounds", "5x"}), "'5x'");
  EXPECT_SAYS(refusal({"--seed", "7.0"}), "'7.0'");
}

TEST(Options, NumbersKeepTheirRanges) {
  for (const std::string text : {"0", "-1", "nan", "inf", "1e7"}) {
    EXPECT_SAYS(refusal({"--time-budget", text}), "--time-budget takes seconds from 0.1");
    EXPECT_SAYS(refusal({"--timeout", text}), "--timeout takes seconds from 1 ");
  }
  for (const std::string text : {"-0.5", "nan", "inf", "1e7"}) {
    EXPECT_SAYS(refusal({"--warmup", text}), "--warmup takes seconds from 0 ");
  }
  for (const std::string text : {"0", "1", "-0.1", "nan", "0.5%"}) {
    EXPECT_SAYS(refusal({"--precision-target", text}), "--precision-target takes a fraction");
  }
  for (const std::string text : {"0", "-1", "1001", "99999999999999999999"}) {
    EXPECT_SAYS(refusal({"--rounds", text}), "--rounds takes a whole number from 1 to 1000");
  }
  for (const std::string text : {"0", "-2", "4097", "two"}) {
    EXPECT_SAYS(refusal({"--threads", text}), "--threads takes a whole number from 1 to 4096");
  }
  for (const std::string text : {"-1", "18446744073709551616", "x"}) {
    EXPECT_SAYS(refusal({"--seed", text}), "--seed takes a whole number from 0 to 2^64 - 1");
  }
}

TEST(Options, UnknownNamesGetTheNearest) {
  EXPECT_SAYS(refusal({"--precision", "bf1"}), "did you mean bf16");
  EXPECT_SAYS(refusal({"--precision", "fp8"}), "valid: fp32, tf32, bf16, fp16");
  EXPECT_SAYS(refusal({"--precision", "fp32,FP16"}), "'FP16'");
  EXPECT_SAYS(refusal({"--inputs", "exakt"}), "did you mean exact?");
  EXPECT_SAYS(refusal({"--inputs", "normal,exact"}), "one distribution");
  EXPECT_SAYS(refusal({"--l2", "warm"}), "hot, cold or both");
  EXPECT_SAYS(refusal({"bench"}), "unknown command 'bench'");
  EXPECT_SAYS(refusal({"lists"}), "did you mean list?");
}

TEST(Options, DevicesAreTheFiveForms) {
  const RunOptions options =
      run({"--device", "auto,cpu,cuda:all,cuda:0,cuda:1023,GPU-6750905a,MIG-1-2f"});
  Words names;
  for (const DeviceRequest& request : options.devices) {
    names.push_back(name_of(request));
  }
  EXPECT_EQ(names,
            (Words{"auto", "cpu", "cuda:all", "cuda:0", "cuda:1023", "GPU-6750905a", "MIG-1-2f"}));
  for (const std::string device :
       {"gpu", "cuda", "cuda:", "cuda:-1", "cuda:x", "cuda:1024", "cuda:0x", "CPU", "cpu:0",
        "cuda:99999999999999999999", "all", "GPU-", "GPU-xyz", "gpu-1", "6750905a"}) {
    EXPECT_SAYS(refusal({"--device", device}), "auto, cpu, cuda:all, cuda:N or a UUID (GPU-...)");
    EXPECT_SAYS(refusal({"list", "--device", device}), "auto, cpu, cuda:all, cuda:N or a UUID");
  }
}

TEST(Options, DevicesAreMeasuredOneAfterTheOtherUnlessAsked) {
  EXPECT_FALSE(run({"--device", "cuda:all"}).concurrent);
  EXPECT_TRUE(run({"--device", "cuda:all", "--concurrent"}).concurrent);
  const auto gate = std::get<GateOptions>(
      parse({"gate", "--against", "old", "--device", "cuda:all", "--concurrent"}));
  EXPECT_EQ(gate.cells, (Words{"--device", "cuda:all", "--concurrent"}));
}

TEST(Options, UnknownOptionsGetTheNearest) {
  EXPECT_SAYS(refusal({"--varient", "tiled"}),
              "unknown option '--varient'; did you mean --variant");
  EXPECT_SAYS(refusal({"--sequence=96"}), "unknown option '--sequence'");
  EXPECT_SAYS(refusal({"--frobnicate"}), "--help lists them");
  EXPECT_SAYS(refusal({"list", "--json", "x"}), "unknown option '--json'");
  EXPECT_SAYS(refusal({"-v"}), "'-v'");
  EXPECT_SAYS(refusal({"-j4"}), "'-j4'");
  EXPECT_EQ(refusal({"--\x1b[2J"}).find('\x1b'), std::string::npos);
}

TEST(Options, TheCulpritIsNotTheValueOfAnotherOption) {
  EXPECT_SAYS(refusal({"--json", "-", "--bogus"}), "'--bogus'");
  EXPECT_SAYS(refusal({"--json", "-file", "--bogus"}), "'--bogus'");
  EXPECT_SAYS(refusal({"--seed", "-1", "--bogus"}), "'--bogus'");
}

TEST(Options, StrayArgumentsAreRefused) {
  EXPECT_SAYS(refusal({"run", "tiled"}), "unexpected argument 'tiled'");
  EXPECT_SAYS(refusal({"--quiet", "tiled"}), "unexpected argument 'tiled'");
  EXPECT_SAYS(refusal({"list", "cuda:0"}), "unexpected argument 'cuda:0'");
  EXPECT_SAYS(refusal({"--seq", "96,", "192"}), "");
  EXPECT_SAYS(refusal({""}), "unknown command ''");
  EXPECT_SAYS(refusal({"-"}), "'-'");
}

TEST(Options, AnOptionIsNotTheValueOfAnother) {
  EXPECT_SAYS(refusal({"--json", "--seq", "96"}), "");
  EXPECT_SAYS(refusal({"--json", "--quiet"}), "--json needs a value, not the option '--quiet'");
  EXPECT_SAYS(refusal({"--save", "--quiet"}), "--save needs a value");
  EXPECT_SAYS(refusal({"--input", "--quiet"}), "--input needs a value");
  EXPECT_SAYS(refusal({"--rounds", "--quiet"}), "--rounds needs a value");
  EXPECT_SAYS(refusal({"--variant", "--quiet"}), "--variant needs a value");
  EXPECT_SAYS(refusal({"--seq", "--quiet"}), "--seq needs a value");
  EXPECT_SAYS(refusal({"--device", "--quiet"}), "--device needs a value");
}

TEST(Options, ARepeatedOptionIsRefusedWithWhatWouldWork) {
  const std::string list = refusal({"--seq", "96", "--rank=48", "--seq=192"});
  EXPECT_SAYS(list, "--seq is given twice");
  EXPECT_SAYS(list, "--seq 96,192");
  EXPECT_SAYS(refusal({"--batch", "1,2", "--batch", "4", "--batch", "8"}),
              "--batch is given 3 times: give one list, --batch 1,2,4,8");
  const std::string one = refusal({"--seed", "1", "--seed", "1"});
  EXPECT_SAYS(one, "--seed is given twice: it takes one value");
  EXPECT_SAYS(refusal({"list", "--device", "cpu", "--device", "cuda:0"}), "--device cpu,cuda:0");
  EXPECT_TRUE(run({"--quiet", "--quiet"}).quiet) << "nothing is lost";
}

TEST(Options, AValueMayNotBeMissing) {
  EXPECT_SAYS(refusal({"--json"}), "'--json' needs a value");
  EXPECT_SAYS(refusal({"--quiet", "--seq"}), "'--seq' needs a value");
  EXPECT_SAYS(refusal({"--json="}), "--json needs a value");
}

TEST(Options, FlagsTakeNoValueThatTheyIgnore) {
  for (const std::string flag : {"quiet", "force", "strict", "dry-run", "help"}) {
    EXPECT_SAYS(refusal({"--" + flag + "=false"}), "'--" + flag + "' takes no value");
  }
}

TEST(Options, AFileExcludesGeneratedInputs) {
  EXPECT_SAYS(refusal({"--input", "x", "--seed", "1"}), "leave out --inputs and --seed");
  EXPECT_SAYS(refusal({"--input", "x", "--inputs", "exact"}), "leave out --inputs and --seed");
  EXPECT_EQ(run({"--input", "x", "--kv-heads", "4"}).kv_heads, Sizes{4});
}

// The files need not be there: nothing is opened.
TEST(Options, WhatIsWrittenIsNothingElseThatIsNamed) {
  const Words documents{"export", "a.json", "b.json", "--to", "csv", "--output"};
  const auto export_to = [&](const std::string& path) {
    Words words = documents;
    words.push_back(path);
    return words;
  };
  for (const std::string same : {"b.json", "./b.json", "no/../b.json"}) {
    EXPECT_SAYS(
        refusal(export_to(same)),
        "--output '" + same + "' is the file of the document 'b.json', which would be lost");
  }
  parse(export_to("c.json"));
  parse(export_to("no/b.json"));
  parse(export_to("-"));
  EXPECT_SAYS(refusal({"--save", "x", "--json", "./x"}), "--json './x' is the file of --save 'x'");
  EXPECT_SAYS(refusal({"--input", "a,b", "--json", "a,b"}), "the file of --input 'a,b'");
  parse({"--input", "x", "--save", "x"});
  EXPECT_SAYS(refusal({"gate", "--baseline", "a.json,b.json", "--output", "b.json"}),
              "the file of --baseline 'b.json'");
  EXPECT_SAYS(refusal({"gate", "--baseline", "a.json", "b.json", "--output", "b.json"}),
              "the document 'b.json'");
  EXPECT_SAYS(refusal({"gate", "--against", "old", "--output", "old", "--format", "md"}),
              "the file of --against 'old'");
  for (const Words& command : {Words{"gate", "--against", "old"}, Words{"selftest"}}) {
    Words words = command;
    words.insert(words.end(), {"--input", "x.json", "--output", "x.json"});
    EXPECT_SAYS(refusal(words), "the file of --input 'x.json'");
  }
}

TEST(Options, WhatWouldDoNothingIsRefused) {
  EXPECT_SAYS(refusal({"--profile", "--json", "a.json"}), "leave out --json");
  EXPECT_SAYS(refusal({"--profile", "--save", "a"}), "leave out --save");
  for (const std::string row : {"--rows", "--columns"}) {
    for (const std::string format : {"csv", "json"}) {
      EXPECT_SAYS(refusal({"compare", "a.json", row, "variant", "--format", format}),
                  row + " is for --format text and md");
    }
  }
  const Words documents{"gate", "--baseline", "a.json", "b.json"};
  for (const Words& option : {Words{"--keep", "folder"}, Words{"--rounds", "3"},
                              Words{"--processes", "5"}, Words{"--no-confirm"}}) {
    Words words = documents;
    words.insert(words.end(), option.begin(), option.end());
    EXPECT_SAYS(refusal(words), option.front() + " is for a candidate that is measured");
  }
  parse({"gate", "--baseline", "a.json", "b.json", "--quiet"});
}

TEST(Options, HelpAndVersionAreTexts) {
  const std::string help = std::get<HelpOptions>(parse({"--help"})).text;
  for (const std::string word : {"--variant", "--time-budget", "list", "77", "Exit codes"}) {
    EXPECT_SAYS(help, word);
  }
  EXPECT_SAYS(std::get<HelpOptions>(parse({"run", "--help"})).text, "--variant");
  EXPECT_SAYS(std::get<HelpOptions>(parse({"list", "--help"})).text, "--device");
  EXPECT_SAYS(std::get<HelpOptions>(parse({"--version"})).text, "commit");
}

TEST(Options, ListTakesDevices) {
  EXPECT_TRUE(std::get<ListOptions>(parse({"list"})).devices.empty()) << "all";
  EXPECT_EQ(std::get<ListOptions>(parse({"list", "--device", "cpu,cuda:0"})).devices.size(), 2u);
}

TEST(Options, WorkerIsForTheProgramItself) {
  EXPECT_EQ(std::get<WorkerOptions>(parse({"worker", "3"})).channel, 3);
  for (const Words& words : {Words{"worker"}, Words{"worker", "x"}, Words{"worker", "2"},
                             Words{"worker", "65536"}, Words{"worker", "3", "4"}}) {
    EXPECT_SAYS(refusal(words), "use run");
  }
}

TEST(Options, Compare) {
  const auto options = std::get<CompareOptions>(
      parse({"compare", "a.json", "--reference", "tiled", "b,c.json", "--columns=device,variant"}));
  EXPECT_EQ(options.files, (Words{"a.json", "b,c.json"}));
  EXPECT_EQ(options.reference, "tiled");
  EXPECT_TRUE(options.layout.rows.empty());
  EXPECT_EQ(options.layout.columns, (std::vector{Axis::kDevice, Axis::kVariant}));
  EXPECT_EQ(options.format, CompareFormat::kText);
  EXPECT_SAYS(refusal({"compare"}), "FILE...");
  EXPECT_SAYS(refusal({"compare", "a.json", ""}), "empty");
  EXPECT_SAYS(refusal({"compare", "a.json", "--rows", "l2,l2"}), "l2 stands there twice");
  EXPECT_SAYS(refusal({"compare", "a.json", "--rows", "devcie"}), "did you mean device");
  EXPECT_SAYS(refusal({"compare", "a.json", "--format", "text,md"}), "--format takes one value");
  EXPECT_SAYS(refusal({"compare", "a.json", "--refrence", "tiled"}), "--reference");
}

TEST(Options, HelpOfCompareHasEveryAxis) {
  const std::string help = std::get<HelpOptions>(parse({"compare", "--help"})).text;
  for (const Axis axis : kAxes) {
    EXPECT_SAYS(help, name_of(axis));
  }
}

TEST(Options, Export) {
  const auto options = std::get<ExportOptions>(
      parse({"export", "a.json", "--to", "gbench", "--no-aggregates", "--output", "b.json"}));
  EXPECT_EQ(options.files, Words{"a.json"});
  EXPECT_EQ(options.format, ExportFormat::kGbench);
  EXPECT_EQ(options.output, "b.json");
  EXPECT_FALSE(options.aggregates);
  EXPECT_EQ(std::get<ExportOptions>(parse({"export", "a.json", "--to", "csv"})).output, "-");
  EXPECT_SAYS(refusal({"export", "a.json"}), "--to");
  EXPECT_SAYS(refusal({"export", "--to", "csv"}), "FILE...");
  EXPECT_SAYS(refusal({"export", "a.json", "--to", "xml"}), "junit");
  EXPECT_SAYS(refusal({"export", "a.json", "--to", "csv", "--no-aggregates"}), "gbench");
}

TEST(Options, CopiesOfCells) {
  const RunOptions options =
      run({"run", "--plant", "0=nothing,3=work:0.05", "--times-only", "--samples", "7"});
  ASSERT_EQ(options.copies.size(), 2u);
  EXPECT_EQ(options.copies[0].number, 0);
  EXPECT_EQ(options.copies[1].number, 3);
  EXPECT_EQ(options.copies[1].planted, (Planted{.kind = PlantKind::kWork, .slow_down = 0.05}));
  EXPECT_TRUE(options.measuring.times_only);
  EXPECT_EQ(options.measuring.samples, 7);
  for (const char* text :
       {"nothing", "=nothing", "-1=nothing", "x=nothing", "1=poison", "1=work:0"}) {
    EXPECT_SAYS(refusal({"run", "--plant", text}), "NUMBER=WHAT");
  }
}

TEST(Options, Selftest) {
  const auto selftest = [](const Words& words) { return std::get<SelftestOptions>(parse(words)); };
  const SelftestOptions usual = selftest({"selftest"});
  EXPECT_EQ(usual.cells, (Words{"--variant", "cooperative"}));
  ASSERT_EQ(usual.plants.size(), 7u);
  EXPECT_EQ(usual.plants[0], Planted{});
  EXPECT_EQ(usual.plants[1].slow_down, 0.015);
  EXPECT_EQ(usual.plants[2].slow_down, 0.03);
  EXPECT_EQ(usual.plants[3].slow_down, 0.05);
  const SelftestOptions other =
      selftest({"selftest", "--threshold", "1", "--plant", "above,first_call_only", "--variant",
                "tiled", "--rounds", "2", "--samples", "9"});
  EXPECT_EQ(other.cells, (Words{"--variant", "tiled"}));
  ASSERT_EQ(other.plants.size(), 2u);
  EXPECT_EQ(other.plants[0], (Planted{.kind = PlantKind::kWork, .slow_down = 0.03}));
  EXPECT_EQ(other.plants[1].kind, PlantKind::kFirstCallOnly);
  EXPECT_EQ(other.series.rounds, 2);
  EXPECT_EQ(other.series.samples, 9);
  EXPECT_SAYS(refusal({"selftest", "--plant", "poison"}), "poison");
}

}  // namespace
}  // namespace mla_bench
