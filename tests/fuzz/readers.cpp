#include "tests/fuzz/readers.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>

#include "apps/cosmoflow/data/universe_dataset.hpp"
#include "engine/base/error.hpp"
#include "engine/data/arrays/array_file.hpp"
#include "engine/data/arrays/array_file_dataset.hpp"
#include "engine/data/files/crc32c.hpp"
#include "engine/data/files/find_files.hpp"
#include "engine/data/stage/stage.hpp"
#include "engine/data/tables/table_dataset.hpp"
#include "engine/data/tfrecord/tfrecord.hpp"
#include "tests/fuzz/trial.hpp"

namespace keelson::fuzz {
namespace fs = std::filesystem;
namespace {

using Words = std::vector<std::string>;

/// The samples of a data set as text: their number, and a checksum.
std::string samples_of(const Dataset& data) {
  std::uint32_t crc = 0;
  std::vector<std::vector<float>> fields;
  std::vector<void*> dst;
  for (const Field& f : data.fields()) fields.emplace_back(static_cast<std::size_t>(f.shape.elements()));
  for (auto& f : fields) dst.push_back(f.data());
  for (std::int64_t i = 0; i < data.size(); ++i) {
    data.read(i, dst.data());
    for (std::size_t f = 0; f < fields.size(); ++f) {
      for (const float v : fields[f])
        if (data.fields()[f].dtype == DType::f32 && !std::isfinite(v)) return "a number is nan";
      crc = crc32c(fields[f].data(), fields[f].size() * sizeof(float), crc);
    }
  }
  return fmt::format("{} samples {:08x}", data.size(), crc);
}

std::string read_table(const Words& words) {
  const bool classes = words[0] == "classes";
  return samples_of(
      TableDataset(words[1], {.targets = {classes ? "kind" : "target"}, .features = {"a", "b"}, .classes = classes}));
}

std::string read_arrays(const Words& words) {
  const auto file = ArrayFile::open(words[0]);
  std::string text;
  for (const std::string& name : file->names()) {
    const ArrayInfo array = file->info(name);
    if (!array.is_numeric()) continue;
    const auto values = file->read<float>(name);
    text += fmt::format("{} {:08x}\n", name, crc32c(values.data(), values.size() * sizeof(float)));
  }
  return text;
}

std::string read_samples(const Words& words) {
  return samples_of(ArrayFileDataset(words[1], {.x = words[0], .y = "", .missing = 0.0f, .standardise = true}));
}

std::string read_records(const Words& words) {
  const TfRecordFile file(words[0]);
  if (file.size() == 0) refuse("{}: holds no records", words[0]);  // as data sets do
  std::string text;
  for (std::int64_t i = 0; i < file.size(); ++i) {
    std::vector<char> record(static_cast<std::size_t>(file.record(i).bytes));
    file.read_whole(i, record.data());
    text += fmt::format("{} bytes {:08x}\n", record.size(), crc32c(record.data(), record.size()));
  }
  return text;
}

/// Samples that a cache keeps as stored are the same.
std::string read_universes(const Words& words) {
  const cosmoflow::UniverseDataset data(words[0], {});
  std::string text = samples_of(data);
  if (!data.has_stored_form()) return text;
  std::vector<std::byte> stored(static_cast<std::size_t>(data.stored_bytes()));
  const auto values_of = [&data](const auto& read) {
    std::vector<float> x(static_cast<std::size_t>(data.fields()[0].shape.elements())),
        y(static_cast<std::size_t>(data.fields()[1].shape.elements()));
    void* const dst[] = {x.data(), y.data()};
    read(dst);
    x.insert(x.end(), y.begin(), y.end());
    return x;
  };
  for (std::int64_t i = 0; i < data.size(); ++i) {
    data.read_stored(i, stored.data());
    if (values_of([&](void* const* dst) { data.decode({.id = {.index = i}}, stored.data(), dst); }) !=
        values_of([&](void* const* dst) { data.read(i, dst); }))
      return fmt::format("sample {} as stored is nan", i);
  }
  return text;
}

std::string stage(const Words& words) {
  StageOptions options{.source = words[0], .find = find_hdf5_files, .target = words[1], .verify = true};
  const auto result = stage_files(options, nullptr);
  for (const auto& path : find_hdf5_files(words[0])) {
    const auto copy = fs::path(words[1]) / fs::relative(path, words[0]);
    if (content_of(copy) != content_of(path)) return fmt::format("{} is nan", copy.string());
  }
  return fmt::format("{} files", result.files);
}

struct Reader {
  std::size_t words;
  std::function<std::string(const Words&)> read;
};

const std::map<std::string, Reader>& readers() {
  static const std::map<std::string, Reader> all{
      {"read-table", {2, read_table}},     {"read-arrays", {1, read_arrays}},       {"read-samples", {2, read_samples}},
      {"read-records", {1, read_records}}, {"read-universes", {1, read_universes}}, {"stage", {2, stage}}};
  return all;
}

}  // namespace

bool is_reader(const std::string& name) { return readers().contains(name); }

int run_reader(const std::string& name, const Words& words) {
  const Reader& reader = readers().at(name);
  KEELSON_EXPECT(words.size() == reader.words);
  try {
    fmt::print("{}\n", reader.read(words));
    return 0;
  } catch (const InputError& e) {
    fmt::print(stderr, "{}: error: {}\n", name, e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: error: {}\n", name, e.what());
    return 1;
  }
}

}  // namespace keelson::fuzz
