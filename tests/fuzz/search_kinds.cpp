#include "tests/fuzz/search_kinds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "engine/data/files/crc32c.hpp"

namespace keelson::fuzz {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;
using Lines = std::vector<std::string>;

std::size_t random_below(std::size_t n, Random& random) { return n == 0 ? 0 : random() % n; }

void write_text(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

/// Two features and a class that follows from them.
void write_classes(const fs::path& file) {
  std::string text = "a,b,kind\n";
  for (int row = 0; row < 60; ++row)
    text += fmt::format("{},{},{}\n", row % 7 - 3, row % 5 - 2, row % 7 > 3 ? "water" : "ice");
  write_text(file, text);
}

Lines lines_of_log(const std::string& log) {
  Lines lines;
  std::istringstream text(log);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

std::string log_of(const Lines& lines) {
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  return text;
}

/// A line as a search writes it, with its checksum.
std::string checked(json line) {
  line.erase("check");
  std::string open = line.dump();
  open.pop_back();
  return fmt::format("{},\"check\":\"{:08x}\"}}", open, crc32c(open.data(), open.size()));
}

/// Lines torn, doubled, lost, in another order, or behind each other without an end.
std::string damage_lines(const std::string& log, Random& random) {
  Lines lines = lines_of_log(log);
  for (auto n = 1 + random_below(4, random); n > 0 && !lines.empty(); --n) {
    const auto a = random_below(lines.size(), random), b = random_below(lines.size(), random);
    const auto at = [&](std::size_t i) { return lines.begin() + static_cast<std::ptrdiff_t>(i); };
    switch (random() % 6) {
      case 0:
        lines[a].resize(random_below(lines[a].size(), random));
        break;
      case 1:
        lines.insert(at(b), std::string(lines[a]));
        break;
      case 2:
        lines.erase(at(a));
        break;
      case 3:
        std::swap(lines[a], lines[b]);
        break;
      case 4:
        lines[a] += lines[b];
        break;
      default:
        std::rotate(at(std::min(a, b)), at(std::max(a, b)), lines.end());
    }
  }
  return log_of(lines);
}

/// For a grid of two networks.
constexpr const char* few_choices = R"(, "optimizer": ["adam"], "rate": ["0.01"], "weight_decay": ["0"],
                                         "schedule": ["constant"], "warmup": ["0"])";

json strange_value(Random& random) {
  const std::array<json, 18> values{0,
                                    -1,
                                    1,
                                    2,
                                    99,
                                    1.5,
                                    -0.25,
                                    1e300,
                                    std::int64_t{1} << 31,
                                    std::int64_t{1} << 53,
                                    INT64_MAX,
                                    INT64_MIN,
                                    UINT64_MAX,
                                    true,
                                    nullptr,
                                    "x",
                                    json::array({1, "x"}),
                                    json::object()};
  return values[random_below(values.size(), random)];
}

/// Replaces, removes or takes from another place any value in an object or a list.
void change_value(json& in, Random& random) {
  if (in.empty()) {
    in = strange_value(random);
    return;
  }
  auto entry = in.begin();
  std::advance(entry, static_cast<std::ptrdiff_t>(random_below(in.size(), random)));
  if (entry->is_structured() && random() % 4 != 0) return change_value(*entry, random);
  auto other = in.begin();
  std::advance(other, static_cast<std::ptrdiff_t>(random_below(in.size(), random)));
  if (random() % 8 == 0)
    in.erase(entry);
  else if (random() % 4 == 0)
    *entry = json(*other);
  else
    *entry = strange_value(random);
}

/// Options of the program in the first line.
std::string forge_options(const std::string& log, Random& random) {
  Lines lines = lines_of_log(log);
  json changed = json::parse(lines[0]);
  change_value(changed["config"], random);
  lines[0] = checked(changed);
  return log_of(lines);
}

/// Values of the first line, or of the others, that a right checksum guards.
std::string forge_lines(const std::string& log, bool first, Random& random) {
  Lines lines = lines_of_log(log);
  for (auto n = 1 + random_below(3, random); n > 0; --n) {
    std::string& line = lines[first ? 0 : 1 + random_below(lines.size() - 1, random)];
    json changed = json::parse(line);
    changed.erase("check");
    change_value(changed, random);
    line = checked(changed);
  }
  return log_of(lines);
}

}  // namespace

std::vector<Kind> search_kinds(const fs::path& base) {
  const auto table = base / "table.csv";
  fs::create_directories(base);
  write_classes(table);
  std::vector<Kind> all;
  for (const std::string method : {"evolution", "grid", "pbt", "ltfb"}) {
    const auto folder = base / method, space = base / (method + ".json");
    write_text(space, fmt::format(R"({{"dense": {{"layers": [1, 1], "units": [16], "activation": ["relu"],
                                      "batch_norm": ["no"], "dropout": ["0"]}}, "training": {{"batch": [16, 32]{}}}}})",
                                  method == "grid" ? few_choices : ""));
    std::vector<std::string> words{"run",      "--data", table,      "--classes", "--out",      folder,
                                   "--method", method,   "--epochs", "2",         "--networks", "5",
                                   "--space",  space,    "--lease",  "1"};
    if (method == "evolution" || method == "grid") words.insert(words.end(), {"--first-epochs", "1", "--eta", "2"});
    make(base / (method + " made"), {"keelson-search", words});
    const auto log = content_of(folder / "search.jsonl");
    const Trial resume{"keelson-search", {"resume", "{}", "--networks", "7", "--data", table}};
    std::vector<Trial> readers{{"keelson-search", {"status", "{}"}},
                               {"keelson-search", {"report", "{}"}},
                               {"keelson-search", {"best", "{}"}},
                               {"keelson-search", {"best", "{}", "--out", "{}/best"}},
                               {"keelson-search", {"replay", "{}"}}};
    if (method == "grid") readers.push_back({"keelson-search", {"compare", "{}", "--seeds", "2", "--networks", "3"}});
    const auto add = [&](const char* what, auto damage, std::vector<Trial> by) {
      all.push_back({fmt::format("{} of searches by {}", what, method), "search.jsonl",
                     [=](const fs::path& f, Random& random) { write_text(f, damage(log, random)); }, std::move(by),
                     log});
    };
    // A first line with other epochs may ask for trainings without end.
    add("forged first lines", [](auto& l, Random& r) { return forge_lines(l, true, r); }, readers);
    add("forged options", forge_options, {{"keelson-search", {"resume", "{}", "--networks", "6"}}});
    readers.push_back(resume);
    add("bytes", [](auto& l, Random& r) { return damage_bytes(l, r); }, readers);
    add("lines", [](auto& l, Random& r) { return damage_lines(l, r); }, readers);
    add("forged lines", [](auto& l, Random& r) { return forge_lines(l, false, r); }, readers);
  }
  return all;
}

}  // namespace keelson::fuzz
