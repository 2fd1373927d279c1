#include "engine/data/tables/detail/parquet_file.hpp"

#include "engine/base/error.hpp"

#if KEELSON_HAVE_PARQUET
#include <arrow/array.h>
#include <arrow/chunked_array.h>
#include <arrow/scalar.h>
#include <arrow/status.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <cmath>
#include <exception>
#include <utility>

#include "engine/data/files/raw_file.hpp"
#include "engine/data/tables/table_text.hpp"
#include "engine/tensor/half.hpp"
#endif

namespace keelson::detail {

#if KEELSON_HAVE_PARQUET
namespace {

/// Throws InputError for an error of Arrow.
void require_success(const arrow::Status& status, const std::string& where) {
  if (status.ok()) return;
  refuse(
      "{}: {}. {}", where, status.message(),
      status.IsNotImplemented() ? "Expected a file that this version of Apache Arrow reads" : "Is the file damaged?");
}

/// Calls use(number_at), where number_at(i) is element i, of which the class A of Arrow holds the numbers.
template <class A, class Use>
bool use_numbers(const arrow::Array& array, const Use& use) {
  const auto& numbers = static_cast<const A&>(array);
  use([&numbers](std::int64_t i) { return static_cast<float>(numbers.Value(i)); });
  return true;
}

template <class A, class Use>
bool use_decimals(const arrow::Array& array, const Use& use) {
  const auto& numbers = static_cast<const A&>(array);
  use([&numbers](std::int64_t i) {
    float number = NAN;
    parse_field(numbers.FormatValue(i), number);
    return number;
  });
  return true;
}

/// Calls use(number_at), where number_at(i) is element i as the nearest float. Returns false, without a call, if the
/// elements are no numbers.
template <class Use>
bool with_numbers(const arrow::Array& array, const Use& use) {
  switch (array.type_id()) {
    case arrow::Type::NA:  // nulls alone
      use([](std::int64_t) { return NAN; });
      return true;
    case arrow::Type::BOOL:
      return use_numbers<arrow::BooleanArray>(array, use);
    case arrow::Type::INT8:
      return use_numbers<arrow::Int8Array>(array, use);
    case arrow::Type::UINT8:
      return use_numbers<arrow::UInt8Array>(array, use);
    case arrow::Type::INT16:
      return use_numbers<arrow::Int16Array>(array, use);
    case arrow::Type::UINT16:
      return use_numbers<arrow::UInt16Array>(array, use);
    case arrow::Type::INT32:
      return use_numbers<arrow::Int32Array>(array, use);
    case arrow::Type::UINT32:
      return use_numbers<arrow::UInt32Array>(array, use);
    case arrow::Type::INT64:
      return use_numbers<arrow::Int64Array>(array, use);
    case arrow::Type::UINT64:
      return use_numbers<arrow::UInt64Array>(array, use);
    case arrow::Type::FLOAT:
      return use_numbers<arrow::FloatArray>(array, use);
    case arrow::Type::DOUBLE:
      return use_numbers<arrow::DoubleArray>(array, use);
    case arrow::Type::HALF_FLOAT: {
      const auto& halves = static_cast<const arrow::HalfFloatArray&>(array);
      use([&halves](std::int64_t i) { return to_float(f16{halves.Value(i)}); });
      return true;
    }
    case arrow::Type::DECIMAL128:
      return use_decimals<arrow::Decimal128Array>(array, use);
    case arrow::Type::DECIMAL256:
      return use_decimals<arrow::Decimal256Array>(array, use);
    default:
      return false;
  }
}

/// The elements of an array, of which some may be nulls; of a dictionary-encoded array, the entries of the dictionary.
class Elements {
 public:
  explicit Elements(const arrow::Array& array) : array_(array) {
    if (array.type_id() == arrow::Type::DICTIONARY) coded_ = static_cast<const arrow::DictionaryArray*>(&array);
  }
  std::int64_t size() const { return array_.length(); }
  const arrow::Array& values() const { return coded_ ? *coded_->dictionary() : array_; }
  /// The place of element i in values(); -1: a null.
  std::int64_t place_of(std::int64_t i) const {
    if (array_.IsNull(i)) return -1;
    const std::int64_t place = coded_ ? coded_->GetValueIndex(i) : i;
    return coded_ && values().IsNull(place) ? -1 : place;
  }

 private:
  const arrow::Array& array_;
  const arrow::DictionaryArray* coded_ = nullptr;
};

class ArrowParquetFile final : public ParquetFile {
 public:
  explicit ArrowParquetFile(const std::string& path) : path_(path) {
    parquet::arrow::FileReaderBuilder builder;
    guarded(path, [&] {
      auto of_file = parquet::default_reader_properties();
      of_file.set_page_checksum_verification(true);
      require_success(builder.OpenFile(path, false, of_file), path);
      parquet::ArrowReaderProperties properties;
      properties.set_use_threads(false);
      properties.set_pre_buffer(false);
      builder.properties(properties);
      require_success(builder.Build(&reader_), path);
      require_success(reader_->GetSchema(&schema_), path);
      require_rows();
    });
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& field : schema_->fields())
      if (!field->name().starts_with("__index_level_")) names.push_back(field->name());
    return names;
  }
  std::int64_t groups() const override { return std::ssize(rows_); }
  std::int64_t rows(std::int64_t group) const override { return rows_[static_cast<std::size_t>(group)]; }
  bool has_column(const std::string& name) const override { return schema_->GetFieldIndex(name) >= 0; }

  void read_numbers(const ParquetColumn& column, std::optional<float> missing, const StridedValues& to) const override {
    std::int64_t row = 0;
    read(column, to, [&](const arrow::Array& array, float* dst) {
      const Elements elements(array);
      const auto put = [&](const auto& number_at) {
        for (std::int64_t i = 0; i < elements.size(); ++i, ++row) {
          const std::int64_t place = elements.place_of(i);
          const float number = place < 0 ? NAN : number_at(place);
          if (!std::isfinite(number) && !missing)
            refuse(
                "{}: the column '{}' has {} in row group {}, row {} (counted from 0). Expected a finite number; "
                "give a value for missing ones, or leave the column out",
                path_, column.name, place < 0 ? "a null" : fmt::format("{}", number), column.group, row);
          dst[static_cast<std::size_t>(i) * to.stride] = std::isfinite(number) ? number : *missing;
        }
      };
      if (!with_numbers(elements.values(), put))
        refuse(
            "{}: the column '{}' holds {}. Expected numbers; name the columns to read, or, of a target with names, "
            "ask for classes",
            path_, column.name, array.type()->ToString());
    });
  }

  void read_classes(const ParquetColumn& column, ClassNumbers& classes, const StridedValues& to) const override {
    std::int64_t row = 0;
    read(column, to, [&](const arrow::Array& array, float* dst) {
      const Elements elements(array);
      const arrow::Array& values = elements.values();
      if (arrow::is_nested(values.type_id()))
        refuse("{}: the column '{}' holds {}. Expected the names of classes", path_, column.name,
               array.type()->ToString());
      for (std::int64_t i = 0; i < elements.size(); ++i, ++row) {
        const std::int64_t place = elements.place_of(i);
        const auto number = place < 0 ? std::nullopt : classes.number_of(path_, text_of(values, place));
        if (!number)
          refuse("{}: the column '{}' has {} in row group {}, row {} (counted from 0). Expected the name of a class",
                 path_, column.name, place < 0 ? "a null" : "an empty text", column.group, row);
        dst[static_cast<std::size_t>(i) * to.stride] = *number;
      }
    });
  }

 private:
  /// Does `work`; what Arrow throws becomes an InputError.
  template <class Work>
  static void guarded(const std::string& where, const Work& work) {
    try {
      work();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& e) {
      refuse("{}: {}. Is the file damaged?", where, e.what());
    }
  }

  void require_rows() {
    const auto metadata = reader_->parquet_reader()->metadata();
    constexpr std::int64_t most = std::int64_t{1} << 40;
    for (int g = 0; g < metadata->num_row_groups(); ++g) {
      rows_.push_back(metadata->RowGroup(g)->num_rows());
      if (rows_.back() < 0 || rows_.back() > most)
        refuse("{}: says that row group {} has {} rows. Is the file damaged?", path_, g, rows_.back());
    }
  }

  /// Calls take(array, first number in `to`) with the arrays of a column of a row group, one after the other.
  template <class Take>
  void read(const ParquetColumn& column, const StridedValues& to, const Take& take) const {
    const std::string where = fmt::format("{}: row group {}, column '{}'", path_, column.group, column.name);
    guarded(where, [&] {
      std::shared_ptr<arrow::ChunkedArray> arrays;
      const auto group = reader_->RowGroup(static_cast<int>(column.group));
      require_success(group->Column(schema_->GetFieldIndex(column.name))->Read(&arrays), where);
      require_success(arrays->ValidateFull(), where);
      if (arrays->length() != rows(column.group))
        refuse("{}: has {} values. Expected {}, one for each row of the row group", where, arrays->length(),
               rows(column.group));
      const auto end = (to.first / to.stride + static_cast<std::size_t>(arrays->length())) * to.stride;
      if (to.values->size() < end) to.values->resize(end);
      float* dst = to.values->data() + to.first;
      for (const auto& array : arrays->chunks()) {
        take(*array, dst);
        dst += static_cast<std::size_t>(array->length()) * to.stride;
      }
    });
  }

  std::string text_of(const arrow::Array& values, std::int64_t i) const {
    const auto scalar = values.GetScalar(i);
    require_success(scalar.status(), path_);
    return (*scalar)->ToString();
  }

  std::string path_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::int64_t> rows_;  ///< of each row group
};

}  // namespace

std::unique_ptr<const ParquetFile> open_parquet(const std::string& path) {
  const RawFile file(path);  // refuses devices and pipes
  constexpr std::string_view magic = "PAR1";
  std::string first(magic.size(), ' ');
  if (file.size() >= std::ssize(first)) file.read(first.data(), std::ssize(first), 0);
  if (first == "PARE") refuse("{}: is encrypted. Expected a Parquet file that is not", path);
  if (first != magic) refuse("{}: is not Parquet. Expected a file that begins with the bytes {}", path, magic);
  return std::make_unique<ArrowParquetFile>(path);
}

#else

std::unique_ptr<const ParquetFile> open_parquet(const std::string& path) {
  refuse(
      "{}: is Parquet, which is read if Keelson is built with Apache Arrow (CMake option KEELSON_WITH_PARQUET=ON), and "
      "this build is without. Expected CSV: text with a delimiter",
      path);
}

#endif

}  // namespace keelson::detail
