#if KEELSON_HAVE_PARQUET
#include "tests/support/parquet_files.hpp"

#include <arrow/array/builder_dict.h>
#include <arrow/builder.h>
#include <arrow/io/memory.h>
#include <arrow/scalar.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <parquet/arrow/writer.h>

#include <map>
#include <memory>
#include <stdexcept>

namespace keelson::testing {
namespace {

void require_written(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

std::shared_ptr<arrow::DataType> type_named(const std::string& name) {
  static const std::map<std::string, std::shared_ptr<arrow::DataType>> types{
      {"bool", arrow::boolean()},
      {"int8", arrow::int8()},
      {"uint8", arrow::uint8()},
      {"int16", arrow::int16()},
      {"uint16", arrow::uint16()},
      {"int32", arrow::int32()},
      {"uint32", arrow::uint32()},
      {"int64", arrow::int64()},
      {"uint64", arrow::uint64()},
      {"halffloat", arrow::float16()},
      {"float", arrow::float32()},
      {"double", arrow::float64()},
      {"decimal", arrow::decimal128(20, 3)},
      {"string", arrow::utf8()},
      {"large_string", arrow::large_utf8()},
      {"binary", arrow::binary()},
      {"timestamp", arrow::timestamp(arrow::TimeUnit::SECOND)},
      {"null", arrow::null()},
      {"list", arrow::list(arrow::int32())},
      {"dictionary", arrow::dictionary(arrow::int32(), arrow::utf8())}};
  return types.at(name);
}

std::shared_ptr<arrow::Array> array_of(const ColumnText& column) {
  const auto type = type_named(column.type);
  std::unique_ptr<arrow::ArrayBuilder> builder;
  require_written(arrow::MakeBuilder(arrow::default_memory_pool(), type, &builder));
  for (const auto& value : column.values) {
    if (!value)
      require_written(builder->AppendNull());
    else if (auto* words = dynamic_cast<arrow::StringDictionaryBuilder*>(builder.get()))
      require_written(words->Append(*value));
    else if (auto* decimals = dynamic_cast<arrow::Decimal128Builder*>(builder.get()))
      require_written(decimals->Append(arrow::Decimal128(*value)));
    else
      require_written(builder->AppendScalar(*arrow::Scalar::Parse(type, *value).ValueOrDie()));
  }
  std::shared_ptr<arrow::Array> array;
  require_written(builder->Finish(&array));
  return array;
}

}  // namespace

std::string parquet_of(const std::vector<ColumnText>& columns, const ParquetForm& form) {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (const auto& column : columns) {
    arrays.push_back(array_of(column));
    fields.push_back(arrow::field(column.name, arrays.back()->type()));
  }
  const auto table = arrow::Table::Make(arrow::schema(fields), arrays);
  const auto stream = arrow::io::BufferOutputStream::Create().ValueOrDie();
  parquet::WriterProperties::Builder properties;
  if (form.is_compressed) properties.compression(parquet::Compression::ZSTD);
  if (form.has_checksums) properties.enable_page_checksum();
  parquet::ArrowWriterProperties::Builder of_arrow;
  if (form.has_schema) of_arrow.store_schema();
  require_written(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), stream, form.rows_per_group,
                                             properties.build(), of_arrow.build()));
  return stream->Finish().ValueOrDie()->ToString();
}

}  // namespace keelson::testing
#endif
