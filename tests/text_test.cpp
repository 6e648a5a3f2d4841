// Numbers in and out, names that are nearly right, and strangers' text made harmless.
#include "text.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace mla_bench {
namespace {

using Strings = std::vector<std::string>;

TEST(Text, SplitsAtEverySeparator) {
  EXPECT_EQ(split("a,b,c", ','), (Strings{"a", "b", "c"}));
  EXPECT_EQ(split("a", ','), Strings{"a"});
  EXPECT_EQ(split("", ','), Strings{""});
  EXPECT_EQ(split(",a,,", ','), (Strings{"", "a", "", ""}));
}

TEST(Text, JoinsWhatItSplit) {
  EXPECT_EQ(join(Strings{}, ", "), "");
  EXPECT_EQ(join(Strings{"a"}, ", "), "a");
  EXPECT_EQ(join(Strings{"a", "b"}, ", "), "a, b");
}

TEST(Text, ParsesWholeIntegersOnly) {
  EXPECT_EQ(parse_integer("96"), 96);
  EXPECT_EQ(parse_integer("-1"), -1);
  EXPECT_EQ(parse_integer("0"), 0);
  EXPECT_EQ(parse_integer("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  for (const std::string text : {"", " 1", "1 ", "+1", "1x", "0x10", "1e3", "1.0", "1,2", "--1",
                                 "9223372036854775808", "-9223372036854775809", "nan"}) {
    EXPECT_EQ(parse_integer(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_integer(std::string_view("1\0", 2)), std::nullopt);
}

TEST(Text, ParsesUnsignedIntegersWithoutSign) {
  EXPECT_EQ(parse_unsigned("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
  for (const std::string text : {"", "-1", "-0", "+1", "18446744073709551616", "7 ", "7.0"}) {
    EXPECT_EQ(parse_unsigned(text), std::nullopt) << text;
  }
}

TEST(Text, ParsesFiniteRealsOnly) {
  EXPECT_EQ(parse_real("1e-3"), 1e-3);
  EXPECT_EQ(parse_real("0.005"), 0.005);
  EXPECT_EQ(parse_real("-2"), -2);
  for (const std::string text : {"", "1e-3x", "0,5", "nan", "-nan", "inf", "-inf", "infinity",
                                 "1e999", "0x1p3", " 1", "1 ", "+1", "."}) {
    EXPECT_EQ(parse_real(text), std::nullopt) << text;
  }
}

TEST(Text, FixesDigits) {
  EXPECT_EQ(fixed(1.005, 1), "1.0");
  EXPECT_EQ(fixed(2.5, 0), "2");
  EXPECT_EQ(fixed(-0.125, 3), "-0.125");
  EXPECT_EQ(fixed(std::numeric_limits<double>::max(), 2).size(), 309 + 3u);
}

TEST(Text, ShowsTimeInItsUnit) {
  EXPECT_EQ(human_time(0.25), "0.25 ns");
  EXPECT_EQ(human_time(999), "999.0 ns");
  EXPECT_EQ(human_time(3860), "3.86 us");
  EXPECT_EQ(human_time(123456), "123.5 us");
  EXPECT_EQ(human_time(1e6), "1.00 ms");
  EXPECT_EQ(human_time(7.5e10), "75.00 s");
}

TEST(Text, DigitsOfATimeEndAtItsResolution) {
  EXPECT_EQ(human_time(3860.4, 0.13), "3.860 us");
  EXPECT_EQ(human_time(3860.4, 0.1), "3.8604 us") << "a place as large as the resolution is told";
  EXPECT_EQ(human_time(3860.4, 1), "3.860 us");
  EXPECT_EQ(human_time(3860.4, 10), "3.86 us");
  EXPECT_EQ(human_time(3860.4, 11), "3.9 us");
  EXPECT_EQ(human_time(3860.4, 1000), "4 us");
  EXPECT_EQ(human_time(3860.4, 2000), "0 us") << "too fast to tell from nothing";
  EXPECT_EQ(human_time(99.5, 0.004), "99.50 ns");
  EXPECT_EQ(human_time(123456789, 32), "123.4568 ms");
  EXPECT_EQ(human_time(1.5e9, 1e-3), "1.500000000000 s");
}

TEST(Text, ShowsBytesInTheirUnit) {
  EXPECT_EQ(human_bytes(0), "0.00 B");
  EXPECT_EQ(human_bytes(1023), "1023.0 B");
  EXPECT_EQ(human_bytes(0x1p10), "1.00 KiB");
  EXPECT_EQ(human_bytes(1.5 * 0x1p30), "1.50 GiB");
  EXPECT_EQ(human_bytes(0x1p50), "1024.0 TiB");
}

TEST(Text, FindsTheNearestNames) {
  const Strings valid{"naive", "tiled", "cooperative", "tensor_core", "cublas", "cublaslt"};
  EXPECT_EQ(nearest("tild", valid), Strings{"tiled"});
  EXPECT_EQ(nearest("Tiled", valid), Strings{"tiled"});
  EXPECT_EQ(nearest("cublast", valid), (Strings{"cublas", "cublaslt"}));
  EXPECT_EQ(nearest("core", valid), Strings{"tensor_core"}) << "a part of a name is a guess";
  EXPECT_EQ(nearest("zzz", valid), Strings{});
  EXPECT_EQ(nearest("", valid), Strings{});
  EXPECT_EQ(nearest("x", Strings{}), Strings{});
}

TEST(Text, SwappedLettersAreOneSlip) {
  EXPECT_EQ(nearest("bf61", Strings{"fp32", "tf32", "bf16", "fp16"}), Strings{"bf16"});
  EXPECT_EQ(nearest("pf32", Strings{"fp32", "bf16"}), Strings{"fp32"});
  EXPECT_EQ(nearest("hto", Strings{"hot", "cold"}), Strings{"hot"});
  EXPECT_EQ(nearest("ca", Strings{"abc"}), Strings{}) << "a letter between the two is another word";
}

TEST(Text, NearestNamesAreTwoAtMostAndInOrder) {
  EXPECT_EQ(nearest("bf1", Strings{"fp16", "bf16", "bf1", "bf2"}), (Strings{"bf1", "bf16"}));
}

TEST(Text, UnknownNameSaysWhatWouldWork) {
  const Strings valid{"naive", "tiled"};
  EXPECT_EQ(unknown_name("variant", "tild", valid),
            "unknown variant 'tild'; did you mean tiled? valid: naive, tiled");
  const std::string far = unknown_name("variant", "wgmma", valid);
  EXPECT_EQ(far.find("did you mean"), std::string::npos) << far;
  EXPECT_NE(far.find("valid: naive, tiled"), std::string::npos) << far;
  EXPECT_EQ(unknown_name("variant", "a\x1b[2Jb", valid).find('\x1b'), std::string::npos);
}

TEST(Text, ControlCharactersBecomePrintable) {
  EXPECT_EQ(printable("plain text"), "plain text");
  EXPECT_EQ(printable("a\x1b[31mb\n\x7f"), "a\\x1b[31mb\\x0a\\x7f");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\u00e9\u4e2d"), "\u00e9\u4e2d") << "letters stay, whatever their script";
}

TEST(Text, NoByteOfAC1ControlIsLeftOver) {
  // U+009B is CSI, as good as ESC [ to a terminal; so is the lone byte to one that is not in UTF-8.
  EXPECT_EQ(printable("a\u009b31m"), "a\\xc2\\x9b31m");
  EXPECT_EQ(printable("a\x9b\x33\x31m"), "a\\x9b31m");
  EXPECT_EQ(printable("\xc2"), "\\xc2");
  EXPECT_EQ(printable("\u4e1b"), "\u4e1b") << "0x9b inside a longer character";
}

TEST(Text, WhatIsPrintedIsUtf8) {
  for (const char* whole : {"\u00a0", "\u07ff", "\u0800", "\uffff", "\U00010000", "\U0010ffff"}) {
    EXPECT_EQ(printable(whole), whole);
  }
  EXPECT_EQ(printable("a\xff.json"), "a\\xff.json");
  EXPECT_EQ(printable("\xe4\xb8"), "\\xe4\\xb8") << "cut";
  EXPECT_EQ(printable("\xe4\xb8\x41"), "\\xe4\\xb8\x41");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf") << "longer than need be";
  EXPECT_EQ(printable("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half of a pair of UTF-16";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond U+10FFFF";
}

TEST(Text, AQuoteIsNoLongerThanALineHolds) {
  EXPECT_EQ(in_quotes("tiled"), "'tiled'");
  EXPECT_EQ(in_quotes(""), "''");
  EXPECT_EQ(in_quotes(std::string(200, 'a')), "'" + std::string(200, 'a') + "'");
  EXPECT_EQ(in_quotes(std::string(201, 'a')), "'" + std::string(200, 'a') + "...'");
  EXPECT_LE(in_quotes(std::string(100'000, '\x7f')).size(), 1000u);
  EXPECT_EQ(in_quotes(std::string(199, 'a') + "\u00e9b"), "'" + std::string(199, 'a') + "...'")
      << "no half of a character";
}

TEST(Text, QuotesOnlyWhereAShellNeedsIt) {
  EXPECT_EQ(shell_word("fp32"), "fp32");
  EXPECT_EQ(shell_word("results/a-b_c.json"), "results/a-b_c.json");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("$(reboot)"), "'$(reboot)'");
  EXPECT_EQ(shell_word("a\nb"), "'a\nb'");
}

}  // namespace
}  // namespace mla_bench
