// Small text work that several stages share: numbers in and out, names, units. Independent of
// locale.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mla_bench {

std::vector<std::string> split(std::string_view text, char separator);
std::string join(std::span<const std::string> parts, std::string_view separator);

// The whole text as a decimal number, or nothing: no sign for the unsigned form, no trailing
// characters, no overflow. parse_real refuses NaN and infinities.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<std::uint64_t> parse_unsigned(std::string_view text);
std::optional<double> parse_real(std::string_view text);

// `value` with that many digits after the point.
std::string fixed(double value, int digits);

// The shortest decimal that reads back as the same double; empty for NaN and infinities.
std::string shortest(double value);

// "3.86 us": three or four significant digits in the largest unit that keeps the value above one,
// or where the resolution is known ("3.860 us" at 0.13 ns) the digits whose places are not below
// it.
std::string human_time(double ns, double resolution_ns = 0);
// "1.50 GiB".
std::string human_bytes(double bytes);

// The up to two valid names nearest to `unknown`, nearest first; empty if none is near. A letter
// too many, too few, or another, and two neighbours that are swapped, are one slip each.
std::vector<std::string> nearest(std::string_view unknown, std::span<const std::string> valid);

// "unknown variant 'tild'; did you mean tiled? valid: naive, tiled": for every kind of name.
std::string unknown_name(std::string_view kind, std::string_view unknown,
                         std::span<const std::string> valid);

// Control characters, and bytes that are no UTF-8, as \xNN, so that a stranger's text can neither
// drive a terminal nor spoil a file.
std::string printable(std::string_view text);

// The same in quotes, and no more of it than a line holds: a stranger's file may have a name of a
// hundred million bytes.
std::string in_quotes(std::string_view text);

// As one shell word: quoted only where it must be.
std::string shell_word(std::string_view text);

}  // namespace mla_bench
