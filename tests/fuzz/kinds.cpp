#include "tests/fuzz/kinds.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tests/fuzz/data_kinds.hpp"
#include "tests/fuzz/forge.hpp"
#include "tests/fuzz/search_kinds.hpp"
#include "tests/fuzz/special.hpp"

namespace keelson::fuzz {
namespace fs = std::filesystem;
namespace {

using Words = std::vector<std::string>;

const Words small{"--hidden", "4", "--layers", "1", "--max-steps", "2"};
const Words tiny{"--blocks", "1,1", "--growth", "4", "--first", "4", "--kernel", "3", "--max-steps", "1"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void write(const fs::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

/// Data and runs that are intact.
struct Intact {
  explicit Intact(const fs::path& base);
  static fs::path newest(const fs::path& run) { return *fs::directory_iterator(run / "checkpoints"); }

  std::string data, raw, chunked, text, out, lm, weather, climate, config;
};

Intact::Intact(const fs::path& base)
    : data(base / "universes"),
      raw(base / "raw"),
      chunked(base / "chunked"),
      text(base / "text"),
      out(base / "cosmoflow"),
      lm(base / "lm"),
      weather(base / "weather"),
      climate(base / "climate") {
  const Words few{"--size",  "32", "--particles",  "1", "--order", "1",
                  "--train", "2",  "--validation", "1", "--test",  "1"};
  make(base / "1", {"keelson-cosmoflow", with({"generate", "--out", data}, few)});
  make(base / "2", {"keelson-cosmoflow", with({"generate", "--layout", "raw", "--out", raw}, few)});
  make(base / "8", {"keelson-cosmoflow",
                    {"rechunk", "--data", data, "--out", chunked, "--chunk", "8,32,32,4", "--gzip", "1", "--shuffle"}});
  make(base / "3", {"keelson-cosmoflow", {"train", "--data", data, "--out", out, "--max-steps", "1"}});
  make(base / "4", {"keelson-lm",
                    {"corpus", "--out", text, "--words", "3000", "--validation-words", "500", "--test-words", "500",
                     "--vocab-size", "30", "--branching", "4", "--topics", "2"}});
  make(base / "5", {"keelson-lm", with({"train", "--data", text, "--out", lm, "--optimizer", "adam"}, small)});
  make(base / "6", {"keelson-climate",
                    {"generate", "--out", weather, "--height", "64", "--width", "96", "--cyclones", "4", "--train", "2",
                     "--validation", "1", "--test", "1"}});
  make(base / "7", {"keelson-climate", with({"train", "--data", weather, "--out", climate}, tiny)});
  config = fmt::format(
      "# a run\ndata = \"{}\"\nhidden = 4\nlayers = 1\nepochs = 2\nlr = 0.5\nbatch = 4\nunroll = 10\n"
      "dropout = 0.25\noptimizer = \"sgd\"\nmomentum = 0.5\nseed = 7\ntied = true\nclip-norm = 5\n",
      text);
}

std::function<void(const fs::path&, Random&)> bytes_of(const std::string& original) {
  return [original](const fs::path& file, Random& random) { write(file, damage_bytes(original, random)); };
}

std::function<void(const fs::path&, Random&)> text_of(const std::string& original) {
  return [original](const fs::path& file, Random& random) { write(file, damage_text(original, random)); };
}

/// Files whose bytes are damaged.
std::vector<Kind> damaged_files(const Intact& i) {
  const auto kind = [](const std::string& name, const fs::path& original, const std::string& file, bool text,
                       std::vector<Trial> readers) {
    const auto bytes = content_of(original);
    return Kind{name, file, text ? text_of(bytes) : bytes_of(bytes), std::move(readers), bytes};
  };
  std::vector<Kind> all{
      kind("universes", fs::path(i.data) / "train/univ_000000.h5", "x.h5", false,
           {{"keelson-cosmoflow", {"train", "--train", "{}/x.h5", "--out", "{}/out", "--max-steps", "1"}}}),
      kind("compressed universes", fs::path(i.chunked) / "train/univ_000000.h5", "x.h5", false,
           {{"keelson-cosmoflow", {"train", "--train", "{}/x.h5", "--out", "{}/out", "--max-steps", "1"}},
            {"keelson-cosmoflow", {"rechunk", "--data", "{}/x.h5", "--out", "{}/new"}}}),
      kind("raw universes", *fs::directory_iterator(fs::path(i.raw) / "train"), "x.h5", false,
           {{"keelson-cosmoflow",
             {"train", "--train", "{}/x.h5", "--out", "{}/out", "--max-steps", "1", "--normalise", "log1p"}}}),
      kind("snapshots", fs::path(i.weather) / "train/data-0000000.h5", "x.h5", false,
           {{"keelson-climate", with({"train", "--train", "{}/x.h5", "--out", "{}/out"}, tiny)},
            {"keelson-climate", {"label", "--data", "{}/x.h5", "--out", "{}/out"}},
            {"keelson-climate", {"plot", "--data", "{}/x.h5", "--out", "{}/x.html"}}}),
      kind("statistics of snapshots", fs::path(i.weather) / "stats.h5", "x.h5", false,
           {{"keelson-climate", with({"train", "--stats", "{}/x.h5", "--data", i.weather, "--out", "{}/out"}, tiny)}}),
      kind("texts", fs::path(i.text) / "ptb.train.txt", "x.txt", true,
           {{"keelson-lm", with({"train", "--data", "{}/x.txt", "--out", "{}/out"}, small)},
            {"keelson-lm", {"vocab", "--data", "{}/x.txt", "--json"}},
            {"keelson-lm", {"evaluate", "--checkpoint", i.lm, "--test", "{}/x.txt", "--json"}}}),
  };
  all.push_back({"configurations",
                 "x.toml",
                 text_of(i.config),
                 {{"keelson-lm", with({"train", "--config", "{}/x.toml", "--out", "{}/out"}, small)}},
                 i.config});
  return all;
}

/// Damaged bytes, and forged ones.
std::vector<Kind> checkpoints(const Intact& i) {
  std::vector<Kind> all;
  const auto add = [&](const std::string& whose, const fs::path& original, const std::vector<Trial>& readers) {
    const auto bytes = content_of(original), file = original.filename().string();
    all.push_back({"checkpoints of " + whose, file, bytes_of(bytes), readers, bytes});
    all.push_back({"forged checkpoints of " + whose, file,
                   [original](const fs::path& f, Random& random) { forge_checkpoint(original, f, random); }, readers,
                   bytes});
  };
  const std::string first = "{}/step-0000000001.h5", second = "{}/step-0000000002.h5";
  add("climate networks", Intact::newest(i.climate),
      {{"keelson-climate", {"evaluate", "--checkpoint", first, "--data", i.weather + "/test", "--json"}},
       {"keelson-climate", {"train", "--resume", first, "--data", i.weather, "--out", "{}/out", "--max-steps", "2"}}});
  add("CosmoFlow", Intact::newest(i.out),
      {{"keelson-cosmoflow", {"evaluate", "--checkpoint", first, "--data", i.data + "/test", "--json"}},
       {"keelson-cosmoflow", {"export", "--checkpoint", first, "--onnx", "{}/x.onnx"}},
       {"keelson-cosmoflow", {"train", "--resume", first, "--data", i.data, "--out", "{}/out", "--max-steps", "2"}}});
  add("the language model", Intact::newest(i.lm),
      {{"keelson-lm", {"evaluate", "--checkpoint", second, "--test", i.text + "/ptb.test.txt", "--json"}},
       {"keelson-lm", {"sample", "--checkpoint", second, "--tokens", "5"}},
       {"keelson-lm", {"train", "--resume", second, "--out", "{}/out", "--max-steps", "3"}}});
  return all;
}

/// Values that no checksum guards, lines that say nothing: what must never pass in silence.
std::vector<Kind> wrong_values(const Intact& i) {
  const fs::path universe = fs::path(i.data) / "test/univ_000000.h5", statistics = fs::path(i.weather) / "stats.h5";
  std::vector<Kind> all;
  all.push_back(
      {"universes of another range",
       "x.h5",
       [=](const fs::path& f, Random& random) { write(f, damage_range(universe, random)); },
       {{"keelson-cosmoflow", {"evaluate", "--checkpoint", i.out, "--data", "{}/x.h5", "--json"}},
        {"keelson-cosmoflow",
         {"train", "--train", i.data + "/train", "--validation", "{}/x.h5", "--out", "{}/out", "--max-steps", "1"}}},
       content_of(universe)});
  all.push_back(
      {"statistics of a constant channel",
       "x.h5",
       [=](const fs::path& f, Random& random) { write(f, damage_statistics(statistics, random)); },
       {{"keelson-climate", with({"train", "--stats", "{}/x.h5", "--data", i.weather, "--out", "{}/out"}, tiny)}},
       content_of(statistics)});
  all.push_back({"configurations without a value",
                 "x.toml",
                 [config = i.config](const fs::path& f, Random& random) { write(f, lose_value(config, random)); },
                 {{"keelson-lm", with({"train", "--config", "{}/x.toml", "--out", "{}/out"}, small)}},
                 i.config});
  for (auto& kind : all) kind.always_wrong = true;
  return all;
}

/// What is no regular file, and outputs that are inputs.
std::vector<Kind> wrong_files(const Intact& i) {
  std::vector<Kind> all;
  all.push_back(
      {"special files",
       "x.h5",
       make_special,
       {{"keelson-cosmoflow", {"train", "--train", "{}/x.h5", "--out", "{}/out", "--max-steps", "1"}},
        {"keelson-climate", with({"train", "--train", "{}/x.h5", "--out", "{}/out"}, tiny)},
        {"keelson-climate", with({"train", "--stats", "{}/x.h5", "--data", i.weather, "--out", "{}/out"}, tiny)},
        {"keelson-cosmoflow", {"evaluate", "--checkpoint", "{}/x.h5", "--data", i.data + "/test"}},
        {"keelson-lm", {"train", "--resume", "{}/x.h5", "--out", "{}/out", "--max-steps", "3"}}}});
  all.push_back(
      {"special files in a run",
       "out",
       [run = i.out](const fs::path& f, Random& random) { damage_run(run, f, random); },
       {{"keelson-cosmoflow", {"train", "--data", i.data, "--out", "{}/out", "--resume", "--max-steps", "2"}},
        {"keelson-cosmoflow", {"train", "--data", i.data, "--out", "{}/out", "--overwrite", "--max-steps", "1"}}}});
  const auto best = "{}/run/" + (fs::path("checkpoints") / Intact::newest(i.out).filename()).string();
  all.push_back(
      {"outputs over inputs",
       "run",
       [i](const fs::path& f, Random&) {
         fs::copy(i.out, f, fs::copy_options::recursive);
         fs::copy(i.text, f / "text");
         write(f / "run.toml", i.config);
       },
       {{"keelson-cosmoflow", {"export", "--checkpoint", "{}/run", "--onnx", best}},
        {"keelson-cosmoflow", {"evaluate", "--checkpoint", "{}/run", "--data", i.data, "--trace", best}},
        {"keelson-climate", {"plot", "--data", i.weather + "/test", "--out", best}},
        {"keelson-lm", {"vocab", "--data", "{}/run/text", "--out", "{}/run/text/ptb.test.txt"}},
        {"keelson-lm",
         with({"train", "--config", "{}/run/run.toml", "--out", "{}/out", "--trace", "{}/run/run.toml"}, small)}}});
  for (auto& kind : all) {
    kind.file_is_read = false;
    kind.always_wrong = true;
  }
  return all;
}

}  // namespace

void make(const fs::path& folder, const Trial& trial) {
  if (run(trial, folder, 600).kind == Ending::Kind::accepted) return;
  fmt::print(stderr, "fuzz: {} does not work on what is intact:\n{}", to_string(trial), content_of(folder / "stderr"));
  std::exit(1);
}

std::vector<Kind> make_kinds(const fs::path& base, const std::string& part) {
  if (part.starts_with("searches")) return search_kinds(base / "searches");
  const Intact intact(base);
  std::vector<Kind> all;
  for (const auto& part :
       {damaged_files(intact), data_kinds({intact.data, intact.chunked, intact.weather, base / "staged", tiny}),
        checkpoints(intact), wrong_values(intact), wrong_files(intact), search_kinds(base / "searches")})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace keelson::fuzz
