#include "tests/fuzz/data_kinds.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <utility>

#include "engine/data/hdf5/hdf5.hpp"
#include "tests/support/array_files.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/parquet_files.hpp"
#include "tests/support/tfrecords.hpp"

namespace keelson::fuzz {
namespace fs = std::filesystem;
namespace {

using Damage = std::function<void(const fs::path&, Random&)>;

void write_bytes(const fs::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

Kind damaged_kind(const std::string& name, const std::string& file, const std::string& bytes,
                  const std::vector<Trial>& readers) {
  const Damage damage = [bytes](const fs::path& f, Random& random) { write_bytes(f, damage_bytes(bytes, random)); };
  return {name, file, damage, readers, bytes};
}

/// The universe of an HDF5 file as a TFRecord.
std::string tfrecord_of_universe(const fs::path& path) {
  const auto file = hdf5::File::open(path.string());
  const auto x = file.read<std::int16_t>("x");
  return testing::tfrecord_of(testing::example_of(
      {{"x", testing::bytes_feature({reinterpret_cast<const char*>(x.data()), x.size() * sizeof x[0]})},
       {"y", testing::floats_feature(file.read<float>("y"))}}));
}

struct Form {
  std::string kind, file, bytes;
};

/// The universe of an HDF5 file in the forms of arrays. `chunked`: the same universe in compressed chunks.
std::vector<Form> forms_of_universe(const fs::path& path, const fs::path& chunked) {
  const auto file = hdf5::File::open(path.string());
  const auto shape = file.info("x").shape;
  const auto x = file.read<std::int16_t>("x");
  const auto y = file.read<float>("y");
  const std::vector<std::pair<std::string, std::string>> arrays{
      {"x.npy", testing::npy_of("<i2", fmt::format("({})", fmt::join(shape, ", ")), testing::bytes_of_numbers(x))},
      {"y.npy", testing::npy_of("<f4", fmt::format("({},)", y.size()), testing::bytes_of_numbers(y))}};
  // The array x of a record is swapped and unpacked, that of a fixed size is not: two ways to read.
  const auto netcdf = [&](int version, std::vector<testing::CdfAttribute> packing) {
    return testing::netcdf_of(version,
                              {{"sample", 0}, {"edge", shape[0]}, {"channel", shape[3]}, {"target", std::ssize(y)}},
                              {{"x", {0, 1, 1, 1, 2}, testing::CdfType::i16, {x.begin(), x.end()}, std::move(packing)},
                               {"y", {0, 3}, testing::CdfType::f32, {y.begin(), y.end()}}},
                              1);
  };
  return {{"stored NumPy archives", "x.npz", testing::zip_of(arrays, false)},
          {"deflated NumPy archives", "x.npz", testing::zip_of(arrays, true)},
          {"NetCDF, CDF-1", "x.nc", netcdf(1, {})},
          {"NetCDF, CDF-2", "x.nc", netcdf(2, {{"scale_factor", testing::CdfType::f64, {0.5}}})},
          {"NetCDF, CDF-5", "x.nc", netcdf(5, {{"valid_range", testing::CdfType::i16, {0, 32767}}})},
          {"netCDF-4", "x.nc", content_of(path)},
          {"compressed netCDF-4", "x.nc", content_of(chunked)}};
}

std::vector<Kind> universes_in_other_forms(const DataFolders& folders) {
  std::vector<Kind> all;
  for (const auto& [name, file, bytes] :
       forms_of_universe(folders.universes / "train/univ_000000.h5", folders.chunked / "train/univ_000000.h5")) {
    std::vector<Trial> readers{{"read-universes", {"{}/" + file}}};
    if (name == "stored NumPy archives" || name == "NetCDF, CDF-5")  // a form as in memory, and one that is unpacked
      readers.push_back(
          {"keelson-cosmoflow", {"train", "--train", "{}/" + file, "--out", "{}/out", "--max-steps", "1"}});
    all.push_back(damaged_kind("universes in " + name, file, bytes, readers));
    all.back().is_checked = name == "deflated NumPy archives";
  }
  return all;
}

/// The snapshot of an HDF5 file in the other forms. `folder`: for a temporary file.
std::vector<Form> forms_of_snapshot(const fs::path& path, const fs::path& folder) {
  const auto file = hdf5::File::open(path.string());
  const auto shape = file.info("climate/data").shape;
  const auto data = file.read<float>("climate/data"), labels = file.read<float>("climate/labels_0");
  const auto names = file.texts_attribute("/", "channel_names");
  std::vector<testing::CdfVariable> variables;
  std::vector<std::pair<std::string, std::string>> arrays;
  const auto history = folder / "x.nc";
  auto netcdf4 = hdf5::File::create(history.string());
  std::vector<float> last;  // (H, W, 17)
  for (std::size_t p = 0; p < labels.size(); ++p) {
    last.insert(last.end(), data.begin() + static_cast<std::ptrdiff_t>(p * names.size()),
                data.begin() + static_cast<std::ptrdiff_t>((p + 1) * names.size()));
    last.push_back(labels[p]);
  }
  const std::string grid = fmt::format("({}, {})", shape[0], shape[1]);
  for (std::size_t c = 0; c <= names.size(); ++c) {
    std::vector<float> plane;
    for (std::size_t p = 0; p < labels.size(); ++p) plane.push_back(last[p * (names.size() + 1) + c]);
    const std::string name = c < names.size() ? names[c] : "LABELS";
    variables.push_back({name, {0, 1, 2}, testing::CdfType::f32, {plane.begin(), plane.end()}});
    if (c == 0) variables.back().attributes = {{"_FillValue", testing::CdfType::f32, {-999}}};
    arrays.emplace_back((c < names.size() ? name : "labels") + ".npy",
                        testing::npy_of("<f4", grid, testing::bytes_of_numbers(plane)));
    netcdf4.write(name, plane.data(), {1, shape[0], shape[1]});
    netcdf4.set_attribute(name, "_FillValue", std::vector<float>{-999});
  }
  netcdf4.close();
  const auto netcdf = [&](int version) {
    return testing::netcdf_of(version, {{"time", 0}, {"lat", shape[0]}, {"lon", shape[1]}}, variables, 1);
  };
  return {{"NetCDF, CDF-1", "x.nc", netcdf(1)},
          {"NetCDF, CDF-2", "x.nc", netcdf(2)},
          {"NetCDF, CDF-5", "x.nc", netcdf(5)},
          {"netCDF-4", "x.nc", content_of(history)},
          {"NumPy arrays", "x.npy",
           testing::npy_of("<f4", fmt::format("({}, {}, 17)", shape[0], shape[1]), testing::bytes_of_numbers(last))},
          {"stored NumPy archives", "x.npz", testing::zip_of(arrays, false)},
          {"deflated NumPy archives", "x.npz", testing::zip_of(arrays, true)}};
}

std::vector<Kind> snapshots_in_other_forms(const DataFolders& folders) {
  const testing::TemporaryFolder folder;
  std::vector<Kind> all;
  for (const auto& [name, file, bytes] : forms_of_snapshot(folders.weather / "train/data-0000000.h5", folder.path())) {
    std::vector<std::string> train{"train", "--train", "{}/" + file, "--out", "{}/out"};
    train.insert(train.end(), folders.training_options.begin(), folders.training_options.end());
    all.push_back(damaged_kind("snapshots in " + name, file, bytes,
                               {{"keelson-climate", train},
                                {"keelson-climate", {"label", "--data", "{}/" + file, "--out", "{}/out"}},
                                {"read-arrays", {"{}/" + file}}}));
  }
  return all;
}

/// Arrays that are read by no program.
std::vector<Kind> arrays(const DataFolders& folders) {
  using testing::CdfType;
  const std::vector<double> counting{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const std::vector<testing::CdfVariable> variables{
      {"x", {0, 1}, CdfType::i16, counting, {{"scale_factor", CdfType::f64, {0.5}}, {"_FillValue", CdfType::i16, {4}}}},
      {"bytes",
       {1, 0},
       CdfType::i8,
       counting,
       {{"_Unsigned", CdfType::text, {}, "true"}, {"valid_range", CdfType::i8, {2, 9}}}},
      {"label", {0}, CdfType::text, {'a', 'b', 'c', 'd'}}};
  std::vector<Kind> all;
  for (const int version : {1, 2, 5})
    all.push_back(damaged_kind(fmt::format("arrays in CDF-{}", version), "x.nc",
                               testing::netcdf_of(version, {{"time", 0}, {"n", 3}}, {variables[0], variables[2]}, 4),
                               {{"read-arrays", {"{}/x.nc"}}, {"read-samples", {"x", "{}/x.nc"}}}));
  all.push_back(damaged_kind("arrays of fixed size in CDF-5", "x.nc",
                             testing::netcdf_of(5, {{"time", 4}, {"n", 3}}, variables),
                             {{"read-arrays", {"{}/x.nc"}}, {"read-samples", {"x", "{}/x.nc"}}}));
  all.push_back(damaged_kind("arrays in chunks of HDF5", "x.h5", content_of(folders.chunked / "train/univ_000000.h5"),
                             {{"read-arrays", {"{}/x.h5"}}}));
  std::vector<float> values(3000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97);
  const std::string npy = testing::npy_of("<f4", "(10, 300)", testing::bytes_of_numbers(values));
  for (const int version : {1, 2, 3})
    all.push_back(damaged_kind(fmt::format("NumPy arrays of version {}", version), "x.npy",
                               testing::npy_of(">i2", "(2, 3, 4)", std::string(48, '\1'), version),
                               {{"read-arrays", {"{}/x.npy"}}, {"read-samples", {"x.npy", "{}"}}}));
  all.push_back(damaged_kind("arrays in stored NumPy archives", "x.npz", testing::zip_of({{"x.npy", npy}}, false),
                             {{"read-arrays", {"{}/x.npz"}}, {"read-samples", {"x", "{}/x.npz"}}}));
  all.push_back(damaged_kind("arrays in deflated NumPy archives", "x.npz", testing::zip_of({{"x.npy", npy}}, true),
                             {{"read-samples", {"x", "{}/x.npz"}}}));
  all.back().is_checked = true;
  return all;
}

/// The columns a, b, target and kind, of which the last is a class, with these types of Arrow.
std::vector<testing::ColumnText> table_columns(const std::array<std::string, 4>& types) {
  std::vector<testing::ColumnText> columns{
      {"a", types[0], {}}, {"b", types[1], {}}, {"target", types[2], {}}, {"kind", types[3], {}}};
  for (int i = 0; i < 300; ++i) {
    columns[0].values.push_back(fmt::format("{:.3f}", 0.37 * i - 20));
    columns[1].values.push_back(fmt::format("{}", i * i % 1009));
    columns[2].values.push_back(types[2] == "bool" ? fmt::format("{}", i % 2 == 0) : fmt::format("{}", i % 7 * 1e-3));
    columns[3].values.push_back(i % 3 == 0 ? "cat" : i % 3 == 1 ? "dog" : "bird of prey");
  }
  return columns;
}

#if KEELSON_HAVE_PARQUET
/// Damages all but the list of row groups and columns at the end, which has no checksum.
void write_damaged_pages(const fs::path& file, const std::string& bytes, Random& random) {
  std::uint32_t list = 0;
  std::memcpy(&list, bytes.data() + bytes.size() - 8, sizeof list);
  const std::size_t end = bytes.size() - 8 - list;
  write_bytes(file, damage_bytes(bytes.substr(0, end), random) + bytes.substr(end));
}

std::vector<Kind> parquet_tables() {
  const auto columns = table_columns({"double", "int32", "float", "string"}),
             others = table_columns({"decimal", "halffloat", "bool", "dictionary"});
  const std::vector<Trial> readers{{"read-table", {"numbers", "{}/x.parquet"}},
                                   {"read-table", {"classes", "{}/x.parquet"}}};
  std::vector<Kind> all;
  const auto add = [&](const std::string& name, const std::string& bytes) {
    all.push_back(damaged_kind(name, "x.parquet", bytes, readers));
  };
  add("Parquet", testing::parquet_of(columns, {.rows_per_group = 100}));
  add("compressed Parquet",
      testing::parquet_of(columns, {.rows_per_group = 200, .is_compressed = true, .has_schema = false}));
  add("Parquet of other types", testing::parquet_of(others, {.rows_per_group = 100}));
  for (const bool is_compressed : {false, true}) {
    const std::string bytes =
        testing::parquet_of(columns, {.rows_per_group = 100, .is_compressed = is_compressed, .has_checksums = true});
    add(is_compressed ? "checked pages of compressed Parquet" : "checked pages of Parquet", bytes);
    all.back().damage = [bytes](const fs::path& f, Random& random) { write_damaged_pages(f, bytes, random); };
    all.back().is_checked = true;
  }
  return all;
}
#endif

std::vector<Kind> tables() {
  const auto columns = table_columns({"double", "int32", "float", "string"});
  std::vector<Kind> all;
  for (const bool is_quoted : {false, true}) {
    std::string text = "a,b,target,kind\n";
    for (std::size_t i = 0; i < columns[0].values.size(); ++i)
      text += fmt::format(fmt::runtime(is_quoted ? "\"{}\",{},\"{}\",\"a \"\"{}\"\"\n\"\r\n" : "{},{},{},{}\n"),
                          *columns[0].values[i], *columns[1].values[i], *columns[2].values[i], *columns[3].values[i]);
    all.push_back({is_quoted ? "CSV in quotes" : "CSV",
                   "x.csv",
                   [text](const fs::path& f, Random& random) { write_bytes(f, damage_text(text, random)); },
                   {{"read-table", {"numbers", "{}/x.csv"}}, {"read-table", {"classes", "{}/x.csv"}}},
                   text});
  }
#if KEELSON_HAVE_PARQUET
  const auto parquet = parquet_tables();
  all.insert(all.end(), parquet.begin(), parquet.end());
#endif
  return all;
}

std::vector<Kind> tfrecords(const DataFolders& folders) {
  using testing::Container;
  const std::string universe = tfrecord_of_universe(folders.universes / "train/univ_000000.h5");
  std::string noise;
  Random random(1);
  for (int i = 0; i < 7000; ++i) noise += static_cast<char>(random());
  const std::string record = testing::tfrecord_of(noise);  // one alone: a file cut between records is whole
  std::vector<Kind> all;
  const auto add = [&](const std::string& name, const std::function<std::string(const std::string&)>& packed) {
    all.push_back(damaged_kind(
        name, "x.tfrecord", packed(universe),
        {{"keelson-cosmoflow", {"train", "--train", "{}/x.tfrecord", "--out", "{}/out", "--max-steps", "1"}}}));
    all.push_back(
        damaged_kind("a record of " + name, "x.tfrecord", packed(record), {{"read-records", {"{}/x.tfrecord"}}}));
    all.back().is_checked = true;
  };
  add("TFRecords", [](const std::string& bytes) { return bytes; });
  add("TFRecords in gzip", [](const std::string& bytes) { return testing::compressed(bytes, Container::gzip); });
  add("TFRecords in zlib", [](const std::string& bytes) { return testing::compressed(bytes, Container::zlib); });
  return all;
}

/// A staged copy whose manifest or files are damaged: staging again repairs the copy, or refuses it.
Kind staged_copies(const DataFolders& folders) {
  const std::string source = folders.universes / "train";
  make(folders.staged.parent_path() / "make staged", {"stage", {source, folders.staged}});
  Kind kind{.name = "staged copies", .file = "staged"};
  kind.damage = [folders](const fs::path& f, Random& random) {
    fs::copy(folders.staged, f, fs::copy_options::recursive);
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(f)) files.push_back(entry.path());
    std::ranges::sort(files);  // the manifest is the first one
    const auto& file = files[random() % 4 < 3 ? 0 : random() % files.size()];
    const std::string bytes = content_of(file);
    write_bytes(file, file == files[0] ? damage_text(bytes, random) : damage_bytes(bytes, random));
  };
  kind.readers = {{"stage", {source, "{}/staged"}}};
  kind.file_is_read = false;
  return kind;
}

}  // namespace

std::vector<Kind> data_kinds(const DataFolders& folders) {
  std::vector<Kind> all;
  for (const auto& part : {universes_in_other_forms(folders), snapshots_in_other_forms(folders), arrays(folders),
                           tables(), tfrecords(folders)})
    all.insert(all.end(), part.begin(), part.end());
  all.push_back(staged_copies(folders));
  return all;
}

}  // namespace keelson::fuzz
