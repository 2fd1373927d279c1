#include "engine/data/arrays/array_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/error.hpp"
#include "tests/support/array_files.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::testing {
namespace {

using hdf5::Dims;
using hdf5::Type;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// 0, 1, 2, ...
std::vector<double> counting(std::int64_t n) {
  std::vector<double> v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), 0.0);
  return v;
}

/// Equal, or both NaN.
void expect_values(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i])))
        << i << ": " << found[i] << ", expected " << expected[i];
}

/// All boxes of an array (3, 4, 5) of 0 ... 59 are those of the whole array.
void expect_boxes(const ArrayFile& file, const std::string& name) {
  const auto array = file.info(name);
  ASSERT_EQ(array.shape, (Dims{3, 4, 5})) << file.path();
  for (const Dims& offset : {Dims{0, 0, 0}, Dims{1, 2, 3}, Dims{2, 0, 0}, Dims{0, 1, 0}})
    for (const Dims& count :
         {Dims{1, 1, 1}, Dims{1, 2, 2}, Dims{1, 3, 5}, Dims{3, 4, 5}, Dims{2, 2, 2}, Dims{0, 1, 1}}) {
      if (offset[0] + count[0] > 3 || offset[1] + count[1] > 4 || offset[2] + count[2] > 5) continue;
      std::vector<double> expected;
      for (std::int64_t i = 0; i < count[0]; ++i)
        for (std::int64_t j = 0; j < count[1]; ++j)
          for (std::int64_t k = 0; k < count[2]; ++k)
            expected.push_back(static_cast<double>((offset[0] + i) * 20 + (offset[1] + j) * 5 + offset[2] + k));
      std::vector<double> doubles(expected.size());
      std::vector<float> floats(expected.size());
      std::vector<std::int32_t> integers(expected.size());
      file.read_box(array, offset, count, doubles.data());
      file.read_box(array, offset, count, floats.data());
      file.read_box(array, offset, count, integers.data());
      EXPECT_EQ(doubles, expected) << file.path() << " " << hdf5::to_string(offset) << " " << hdf5::to_string(count);
      EXPECT_EQ(std::vector<double>(floats.begin(), floats.end()), expected);
      EXPECT_EQ(std::vector<double>(integers.begin(), integers.end()), expected);
    }
}

class ArrayFiles : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) const {
    return write_file(folder_ / name, bytes);
  }
  std::string refusal(const std::string& name, const std::string& bytes) const {
    const auto path = write(name, bytes);
    return message_of<InputError>([&] {
      const auto file = ArrayFile::open(path);
      for (const auto& n : file->names()) file->read<double>(n);
    });
  }

  TemporaryFolder folder_;
};

#define EXPECT_PART(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

const std::vector<CdfDimension> fixed_dimensions{{"z", 3}, {"y", 4}, {"x", 5}};

TEST_F(ArrayFiles, ReadsBoxesOfEveryForm) {
  for (const int version : {1, 2, 5}) {
    const auto path = write("a.nc", netcdf_of(version, fixed_dimensions,
                                              {{"first", {2}, CdfType::i16, counting(5)},
                                               {"v", {0, 1, 2}, CdfType::f32, counting(60)},
                                               {"w", {0, 1, 2}, CdfType::i16, counting(60)}}));
    const auto file = ArrayFile::open(path);
    EXPECT_EQ(file->form(), fmt::format("NetCDF (CDF-{})", version));
    EXPECT_EQ(file->names(), (std::vector<std::string>{"first", "v", "w"}));
    EXPECT_EQ(file->dimensions("v"), (std::vector<std::string>{"z", "y", "x"}));
    expect_boxes(*file, "v");
    expect_boxes(*file, "w");
  }
  std::vector<float> v(60);
  std::iota(v.begin(), v.end(), 0.0f);
  const std::vector<std::int64_t> w(v.begin(), v.end());
  expect_boxes(*ArrayFile::open(write("v.npy", npy_of("<f4", "(3, 4, 5)", bytes_of_numbers(v)))), "v");
  for (const bool deflated : {false, true}) {
    const auto file = ArrayFile::open(write("a.npz", zip_of({{"v.npy", npy_of("<f4", "(3, 4, 5)", bytes_of_numbers(v))},
                                                             {"w.npy", npy_of("<i8", "(3, 4, 5)", bytes_of_numbers(w))},
                                                             {"readme.txt", "a text"}},
                                                            deflated)));
    EXPECT_EQ(file->names(), (std::vector<std::string>{"v", "w"}));
    expect_boxes(*file, "v");
    expect_boxes(*file, "w");
  }
  auto h = hdf5::File::create(folder_ / "a.h5");
  h.write("group/v", v.data(), {3, 4, 5});
  h.write("w", w.data(), {3, 4, 5});
  h.close();
  std::vector<std::int16_t> small(v.begin(), v.end());
  write_foreign_int16(folder_ / "a.h5", "big", Storage::big_endian, {3, 4, 5}, small);
  write_foreign_int16(folder_ / "a.h5", "packed", Storage::compressed, {3, 4, 5}, small);
  const auto file = ArrayFile::open(folder_ / "a.h5");
  EXPECT_EQ(file->form(), "HDF5");
  EXPECT_EQ(file->names(), (std::vector<std::string>{"big", "group/v", "packed", "w"}));
  EXPECT_GE(file->info("group/v").begin, 0);
  EXPECT_LT(file->info("packed").begin, 0);
  for (const auto& name : file->names()) expect_boxes(*file, name);
}

/// The types of CDF-5, with their extreme values; and the same types of NumPy in both orders of bytes.
TEST_F(ArrayFiles, ReadsEveryType) {
  const std::vector<std::pair<CdfType, std::vector<double>>> types{{CdfType::i8, {-128, 127}},
                                                                   {CdfType::i16, {-32768, 32767}},
                                                                   {CdfType::i32, {-2147483648.0, 2147483647}},
                                                                   {CdfType::f32, {-1.5, 0x1.fffffep+127}},
                                                                   {CdfType::f64, {-1e300, 5e-324}},
                                                                   {CdfType::u8, {0, 255}},
                                                                   {CdfType::u16, {0, 65534}},
                                                                   {CdfType::u32, {0, 4294967294}},
                                                                   {CdfType::i64, {-0x1p62, 0x1p62}},
                                                                   {CdfType::u64, {0, 0x1p63}}};
  std::vector<CdfVariable> variables{{"text", {0}, CdfType::text, {65, 66}}};
  for (const auto& [type, values] : types)
    variables.push_back({fmt::format("v{}", static_cast<int>(type)), {0}, type, values});
  const auto file = ArrayFile::open(write("a.nc", netcdf_of(5, {{"n", 2}}, variables)));
  for (const auto& [type, values] : types)
    expect_values(file->read<double>(fmt::format("v{}", static_cast<int>(type))), values);
  EXPECT_EQ(file->info("v4").type_name, "int32");
  EXPECT_PART(message_of<InputError>([&] { file->read<float>("text"); }), "'text' holds text. Expected numbers");

  const auto numpy = [&](const std::string& code, const std::string& little) {
    std::string big = little;
    const auto size = static_cast<std::size_t>(code.back() - '0');
    for (std::size_t at = 0; at < big.size(); at += size)
      std::reverse(big.begin() + static_cast<std::ptrdiff_t>(at), big.begin() + static_cast<std::ptrdiff_t>(at + size));
    const auto shape = fmt::format("({},)", little.size() / size);
    const auto a = ArrayFile::open(write("l.npy", npy_of("<" + code, shape, little)))->read<double>("l");
    const auto b = ArrayFile::open(write("b.npy", npy_of(">" + code, shape, big, 2)))->read<double>("b");
    const auto c = ArrayFile::open(write("c.npy", npy_of("=" + code, shape, little, 3)))->read<double>("c");
    expect_values(b, a);
    expect_values(c, a);
    return a;
  };
  const auto check = [&](const std::string& code, const auto& values) {
    expect_values(numpy(code, bytes_of_numbers(values)), {values.begin(), values.end()});
  };
  check("i1", std::vector<std::int8_t>{-128, 127});
  check("u1", std::vector<std::uint8_t>{0, 255});
  check("i2", std::vector<std::int16_t>{-32768, 32767});
  check("u2", std::vector<std::uint16_t>{0, 65535});
  check("i4", std::vector<std::int32_t>{INT32_MIN, INT32_MAX});
  check("u4", std::vector<std::uint32_t>{0, UINT32_MAX});
  check("i8", std::vector<std::int64_t>{INT64_MIN, 1 << 30});
  check("u8", std::vector<std::uint64_t>{0, std::uint64_t{1} << 63});
  check("f4", std::vector<float>{-1.5f, 1e-40f});
  check("f8", std::vector<double>{-1e300, nan});
  expect_values(numpy("f2", bytes_of_numbers(std::vector<std::uint16_t>{0x3c00, 0xc000, 0x7bff, 0x0001, 0x7c00})),
                {1, -2, 65504, 0x1p-24, INFINITY});
  const auto flags = ArrayFile::open(write("f.npy", npy_of("|b1", "(2,)", std::string("\0\1", 2))));
  EXPECT_EQ(flags->read<std::int32_t>("f"), (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(flags->info("f").type_name, "bool");
  EXPECT_EQ(ArrayFile::open(write("s.npy", npy_of("<f8", "()", bytes_of_numbers(std::vector{2.5}))))->read<float>("s"),
            std::vector<float>{2.5f});
}

TEST_F(ArrayFiles, ReadsRecords) {
  const std::vector<CdfDimension> dimensions{{"time", 0}, {"y", 4}, {"x", 5}, {"n", 3}};
  // Several record variables are filled up to 4 bytes each, one alone is not.
  const CdfVariable v{"v", {0, 1, 2}, CdfType::f64, counting(60)}, odd{"odd", {0, 3}, CdfType::i8, counting(9)},
      step{"step", {0}, CdfType::i16, {7, 8, 9}}, plain{"plain", {3}, CdfType::i16, {1, 2, 3}};
  for (const int version : {1, 2, 5})
    for (const bool streaming : {false, true}) {
      const auto several =
          ArrayFile::open(write("a.nc", netcdf_of(version, dimensions, {odd, plain, v, step}, 3, streaming)));
      expect_boxes(*several, "v");
      EXPECT_EQ(several->read<double>("odd"), counting(9));
      EXPECT_EQ(several->info("odd").shape, (Dims{3, 3}));
      EXPECT_EQ(several->read<double>("step"), (std::vector<double>{7, 8, 9}));
      EXPECT_EQ(several->read<double>("plain"), (std::vector<double>{1, 2, 3}));
      const auto alone = ArrayFile::open(write("b.nc", netcdf_of(version, dimensions, {plain, odd}, 3, streaming)));
      EXPECT_EQ(alone->read<double>("odd"), counting(9));
      EXPECT_EQ(alone->info("odd").stride, 3);
    }
  const auto empty = ArrayFile::open(write("c.nc", netcdf_of(1, dimensions, {v, plain}, 0)));
  EXPECT_EQ(empty->info("v").shape, (Dims{0, 4, 5}));
  EXPECT_TRUE(empty->read<float>("v").empty());
}

TEST_F(ArrayFiles, UnpacksByTheConventionsOfNetCdf) {
  const CdfAttribute scale{"scale_factor", CdfType::f64, {0.5}}, offset{"add_offset", CdfType::f32, {100}},
      fill{"_FillValue", CdfType::i16, {-1}}, missing{"missing_value", CdfType::i32, {7, 100000}};
  const auto file = ArrayFile::open(
      write("a.nc", netcdf_of(1, {{"n", 4}},
                              {{"packed", {0}, CdfType::i16, {4, -1, 7, -32767}, {scale, offset, fill, missing}},
                               {"whole", {0}, CdfType::i16, {4, 5, 7, -32767}, {missing}},
                               {"never", {0}, CdfType::f32, {1, 9.969209968386869e36, 3, 1e36}},
                               {"bytes", {0}, CdfType::i8, {-127, -1, 0, 1}},
                               {"unsigned",
                                {0},
                                CdfType::i8,
                                {-1, 1, -2, 3},
                                {{"_Unsigned", CdfType::text, {}, "true"}, {"_FillValue", CdfType::i8, {-2}}}},
                               {"nan", {0}, CdfType::f32, {1, nan, 2, 3}, {{"_FillValue", CdfType::f32, {nan}}}}})));
  expect_values(file->read<double>("packed"), {102, nan, nan, -16283.5});
  expect_values(file->read<double>("whole"), {4, 5, nan, nan});
  expect_values(file->read<double>("never"), {1, nan, 3, static_cast<double>(1e36f)});
  expect_values(file->read<double>("bytes"), {-127, -1, 0, 1});
  expect_values(file->read<double>("unsigned"), {255, 1, nan, 3});
  expect_values(file->read<double>("nan"), {1, nan, 2, 3});
  EXPECT_PART(message_of<InputError>([&] { file->read<std::int32_t>("whole"); }),
              "'whole' holds no value (NaN or missing) at (2). Expected whole numbers");
  EXPECT_PART(message_of<InputError>([&] { file->read<std::int32_t>("packed"); }), "at (1)");
}

TEST_F(ArrayFiles, LeavesOutNumbersBeyondTheValidRange) {
  const CdfAttribute range{"valid_range", CdfType::i16, {0, 10}}, least{"valid_min", CdfType::f64, {-2}},
      most{"valid_max", CdfType::i32, {5}}, scale{"scale_factor", CdfType::f32, {2}};
  const auto file = ArrayFile::open(write(
      "a.nc",
      netcdf_of(5, {{"n", 5}},
                {{"range", {0}, CdfType::i16, {-1, 0, 5, 10, 11}, {range, scale}},
                 {"first", {0}, CdfType::i16, {-1, 0, 5, 10, 11}, {range, most}},
                 {"bounds", {0}, CdfType::f32, {-3, -2, 5, 5.5, nan}, {least, most}},
                 {"least", {0}, CdfType::i64, {-3, -2, 5, 6, 7}, {least}},
                 {"bytes",
                  {0},
                  CdfType::i8,
                  {-1, -3, 127, 1, 0},
                  {{"_Unsigned", CdfType::text, {}, "True"}, {"valid_range", CdfType::i8, {1, -3}}}},
                 {"signed", {0}, CdfType::i8, {-1, -3, 127, 1, 0}, {{"_Unsigned", CdfType::text, {}, "false"}}},
                 {"fraction", {0}, CdfType::i16, {-1, 0, 5, 10, 11}, {{"valid_max", CdfType::f64, {5.5}}}},
                 {"large", {0}, CdfType::i16, {-1, 0, 5, 10, 11}, {{"valid_range", CdfType::i32, {0, 32768}}}},
                 {"three", {0}, CdfType::i16, {-1, 0, 5, 10, 11}, {{"valid_range", CdfType::i16, {0, 1, 2}}, most}},
                 {"text", {0}, CdfType::i16, {-1, 0, 5, 10, 11}, {{"valid_range", CdfType::text, {}, "0, 5"}}}})));
  expect_values(file->read<double>("range"), {nan, 0, 10, 20, nan});
  expect_values(file->read<double>("first"), {nan, 0, 5, 10, nan});
  expect_values(file->read<double>("bounds"), {nan, -2, 5, nan, nan});
  expect_values(file->read<double>("least"), {nan, -2, 5, 6, 7});
  expect_values(file->read<double>("bytes"), {nan, 253, 127, 1, nan});
  expect_values(file->read<double>("signed"), {-1, -3, 127, 1, 0});
  for (const char* name : {"fraction", "large", "text"}) expect_values(file->read<double>(name), {-1, 0, 5, 10, 11});
  expect_values(file->read<double>("three"), {-1, 0, 5, nan, nan});
  EXPECT_PART(message_of<InputError>([&] { file->read<std::int32_t>("range"); }), "'range' holds no value");
}

/// netCDF-4 has the same attributes; files of HDF5 alone may have them with another meaning.
TEST_F(ArrayFiles, UnpacksNetCdf4) {
  for (const char* name : {"a.nc", "b.h5", "c.h5"}) {
    auto f = hdf5::File::create(folder_ / name);
    f.write("v", std::vector<std::int16_t>{1, 2, -9, 3}.data(), {4});
    f.set_attribute("v", "scale_factor", 0.25);
    f.set_attribute("v", "valid_max", std::vector<std::int16_t>{2});
    f.set_attribute("v", "_FillValue", std::vector<std::int16_t>{-9});
    if (name[0] == 'b') f.set_attribute("/", "_NCProperties", "version=2,netcdf=4.9.2,hdf5=1.14.0");
    f.close();
    const auto file = ArrayFile::open(folder_ / name);
    EXPECT_EQ(file->form(), name[0] == 'c' ? "HDF5" : "NetCDF (netCDF-4)");
    expect_values(file->read<double>("v"),
                  name[0] == 'c' ? std::vector<double>{1, 2, -9, 3} : std::vector<double>{0.25, 0.5, nan, nan});
  }
}

TEST_F(ArrayFiles, RefusesNumbersThatAreNoClasses) {
  const auto path = write("a.nc", netcdf_of(5, {{"y", 2}, {"x", 2}},
                                            {{"half", {0, 1}, CdfType::f32, {1, 2, 3, 0.5}},
                                             {"large", {0, 1}, CdfType::u32, {1, 2147483648.0, 3, 4}},
                                             {"huge", {0, 1}, CdfType::f64, {1, 2, -2147483649.0, 4}}}));
  const auto file = ArrayFile::open(path);
  const auto refused = [&](const std::string& name) {
    return message_of<InputError>([&] { file->read<std::int32_t>(name); });
  };
  EXPECT_EQ(refused("half"), path + ": 'half' holds 0.5 at (1, 1). Expected whole numbers (int32)");
  EXPECT_PART(refused("large"), "holds 2147483648 at (0, 1)");
  EXPECT_PART(refused("huge"), "holds -2147483649 at (1, 0)");
  EXPECT_PART(message_of<InputError>([&] { file->info("other"); }),
              "has no array 'other'. The file holds 'half', 'large', 'huge'");
}

TEST_F(ArrayFiles, RefusesOtherForms) {
  for (const auto& [bytes, advice] :
       std::vector<std::pair<std::string, std::string>>{{"GRIB....", "cdo -f nc4"},
                                                        {"PAR1....", "Parquet"},
                                                        {"a,b,c\n1,2,3\n", "Expected HDF5, NetCDF"},
                                                        {"", "is empty"}})
    EXPECT_PART(refusal("x.dat", bytes), advice);
  EXPECT_PART(refusal("x.h5", "not HDF5"), "is not an HDF5 file");
  EXPECT_PART(message_of<InputError>([&] { ArrayFile::open(folder_ / "missing.nc"); }), "No such file");
  EXPECT_PART(message_of<InputError>([&] { ArrayFile::open(folder_.path()); }), "Expected a regular file");
}

TEST_F(ArrayFiles, RefusesDamagedNetCdf) {
  const std::vector<CdfVariable> variables{{"v", {0, 1, 2}, CdfType::f32, counting(60)}};
  for (const int version : {1, 2, 5}) {
    const std::string whole = netcdf_of(version, fixed_dimensions, variables);
    for (std::size_t length = 4; length < whole.size(); length += length < 250 ? 3 : 40)
      EXPECT_FALSE(refusal("a.nc", whole.substr(0, length)).empty()) << length;
    EXPECT_PART(refusal("a.nc", whole.substr(0, whole.size() - 4)), "4 too few");
    std::string other = whole;
    other[3] = 4;
    EXPECT_PART(refusal("a.nc", other), "the version 4. Expected 1, 2 or 5");
    const auto at_x = whole.find(std::string("x\0\0\0", 4)) + 4;
    other = whole;
    other[at_x] = static_cast<char>(0x7f);  // a length of 2^30 and more, or 2^62
    EXPECT_PART(refusal("a.nc", other), version == 5 ? "more than 2^63 bytes" : "too few");
    other[at_x] = static_cast<char>(0xff);
    EXPECT_PART(refusal("a.nc", other), "Expected a number from 0");
  }
  EXPECT_PART(refusal("a.nc", netcdf_of(1, {{"t", 0}, {"u", 0}}, {})), "second unlimited dimension");
  EXPECT_PART(refusal("a.nc", netcdf_of(1, {{"t", 0}, {"n", 2}}, {{"v", {1, 0}, CdfType::f32, counting(2)}})),
              "Expected it first");
  std::string records = netcdf_of(1, {{"t", 0}, {"n", 2}}, {{"v", {0, 1}, CdfType::f32, counting(4)}}, 2);
  records[7] = 3;  // says that there is one record more
  EXPECT_PART(refusal("a.nc", records), "8 too few");
  EXPECT_PART(refusal("a.nc", netcdf_of(1, {{"n", 2}}, {{"v", {0}, CdfType::u8, counting(2)}})),
              "Expected a type from 1 to 6 in CDF-1");
  EXPECT_PART(refusal("a.nc", netcdf_of(1, {{"n", 2}},
                                        {{"v", {0}, CdfType::f32, {1, 2}, {{"scale_factor", CdfType::f32, {1, 2}}}}})),
              "'scale_factor' holds 1, 2. Expected one finite number");
  EXPECT_PART(
      refusal("a.nc", netcdf_of(1, {{"n", 2}},
                                {{"v", {0}, CdfType::f32, {1, 2}, {{"missing_value", CdfType::text, {}, "x"}}}})),
      "'missing_value' is a text");
}

TEST_F(ArrayFiles, RefusesDamagedNumPy) {
  const std::string elements(24, '\1'), whole = npy_of("<f4", "(2, 3)", elements);
  for (std::size_t length = 6; length < whole.size(); length += 3)
    EXPECT_FALSE(refusal("a.npy", whole.substr(0, length)).empty()) << length;
  EXPECT_PART(refusal("a.npy", whole.substr(0, whole.size() - 1)),
              "has 23 bytes of elements. Expected 24, for the shape (2, 3)");
  EXPECT_PART(refusal("a.npy", whole + "x"), "has 25 bytes");
  EXPECT_PART(refusal("a.npy", npy_of("<f4", "(2, 3)", elements, 1, true)), "numpy.ascontiguousarray");
  EXPECT_EQ(ArrayFile::open(write("a.npy", npy_of("<f4", "(6,)", elements, 1, true)))->info("a").shape, Dims{6});
  EXPECT_PART(refusal("a.npy", npy_of("<c8", "(3,)", elements)), "the dtype '<c8'");
  EXPECT_PART(refusal("a.npy", npy_of("|O", "(3,)", elements)), "the dtype '|O'");
  EXPECT_PART(refusal("a.npy", npy_of("[('a', '<f4')]", "(6,)", elements)), "structured elements [('a', '<f4')]");
  EXPECT_PART(refusal("a.npy", npy_of("<f4", "(9223372036854775807, 3)", elements)), "more than 2^63 bytes");
  EXPECT_PART(refusal("a.npy", npy_of("<f4", "(-2, 3)", elements)), "has the header");
  EXPECT_PART(refusal("a.npy", npy_of("<f4", "2, 3", elements)), "has the header");
  EXPECT_PART(refusal("a.npy", npy_of("<f4", "(2, 3)", elements, 7)), "version 7");
}

TEST_F(ArrayFiles, RefusesDamagedArchives) {
  const std::string array = npy_of("<f4", "(100,)", std::string(400, '\0'));
  for (const bool deflated : {false, true}) {
    const std::string whole = zip_of({{"v.npy", array}}, deflated);
    for (std::size_t length = 4; length < whole.size(); length += 17)
      EXPECT_FALSE(refusal("a.npz", whole.substr(0, length)).empty()) << length;
  }
  std::string damaged = zip_of({{"v.npy", array}}, true);
  damaged[45] = static_cast<char>(damaged[45] ^ 0x55);
  EXPECT_PART(refusal("a.npz", damaged), "cannot be unpacked");
  EXPECT_PART(refusal("a.npz", zip_of({{"v.txt", "text"}}, false)), "zip file without arrays");
}

/// Several threads read from one file at the same time.
TEST_F(ArrayFiles, ServesThreads) {
  const auto file =
      ArrayFile::open(write("a.nc", netcdf_of(2, fixed_dimensions, {{"v", {0, 1, 2}, CdfType::f32, counting(60)}})));
  std::vector<std::vector<double>> found(4);
  std::vector<std::thread> threads;
  for (auto& f : found)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) f = file->read<double>("v");
    });
  for (auto& t : threads) t.join();
  for (const auto& f : found) EXPECT_EQ(f, counting(60));
}

}  // namespace
}  // namespace keelson::testing
