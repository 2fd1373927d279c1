#include "engine/data/arrays/array_file_dataset.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/arrays/array_file.hpp"
#include "engine/data/arrays/detail/channel_moments.hpp"
#include "engine/data/files/file_list.hpp"
#include "engine/data/files/file_samples.hpp"
#include "engine/data/files/find_files.hpp"
#include "engine/data/files/recent_files.hpp"

namespace keelson {
namespace detail {

/// A field in an open file.
struct ArraySource {
  std::shared_ptr<const ArrayFile> file;
  ArrayInfo array;
  std::optional<std::size_t> sample_dimension;  ///< no value: the array is one sample

  std::int64_t samples() const { return sample_dimension ? array.shape[*sample_dimension] : 1; }
  hdf5::Dims shape_of_sample() const {
    hdf5::Dims shape = array.shape;
    if (sample_dimension) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(*sample_dimension));
    return shape;
  }
};

using ArraySources = std::vector<ArraySource>;  ///< one for each field

/// How a field is made of the samples of an array.
struct ArrayField {
  std::string array;               ///< its name, or a pattern of .npy files
  hdf5::Dims shape;                ///< of a sample, as stored
  bool is_channels_first = false;  ///< the first of three or more dimensions becomes the last one
  bool is_replaced = false;        ///< numbers that are not finite may be replaced
  std::optional<float> missing;    ///< by this number
  ChannelMoments moments;          ///< for standardising; empty: numbers stay as they are

  /// The dimension of `shape` that counts rows.
  std::size_t row_dimension() const { return is_channels_first ? 1 : 0; }
};

}  // namespace detail

using detail::ArrayField;
using detail::ArraySource;
using detail::ArraySources;

namespace {

bool is_npy_name(const std::string& name) { return name.ends_with(".npy"); }

/// The place of the first number that is not finite; -1: there is none.
std::int64_t find_not_finite(const float* values, std::int64_t n) {
  std::uint32_t largest = 0;  // largest magnitude, as bits
  for (std::int64_t i = 0; i < n; ++i)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffu);
  if (largest < 0x7f800000u) return -1;
  return std::find_if(values, values + n, [](float v) { return !std::isfinite(v); }) - values;
}

template <class T>
void read_checked(const ArraySource& source, const ArrayField& field, const hdf5::Dims& offset, const hdf5::Dims& count,
                  std::int64_t n, T* dst) {
  source.file->read_box(source.array, offset, count, dst);
  if constexpr (std::is_same_v<T, float>) {
    const std::int64_t at = find_not_finite(dst, n);
    if (at < 0) return;
    if (!field.missing)
      refuse("{}: '{}' holds {} at {}. Expected finite numbers; {}", source.file->path(), source.array.name,
             std::isnan(dst[at]) ? "no value (NaN or missing)" : "infinity",
             hdf5::to_string(place_in_box(offset, count, at)),
             field.is_replaced ? "give a number that replaces missing ones, or remake the file" : "remake the file");
    std::replace_if(dst, dst + n, [](float v) { return !std::isfinite(v); }, *field.missing);
  }
}

/// Standardises elements that are written as fields are.
template <class T>
void standardise_field(const ArrayField& field, std::int64_t n, T* dst) {
  if constexpr (std::is_same_v<T, float>)
    if (!field.moments.means.empty()) detail::standardise(field.moments, n, dst);
}

/// Reads rows of a sample. Rows beyond the edges become zeros.
template <class T>
void read_field(const ArraySource& source, const ArrayField& field, std::int64_t sample, std::optional<Rows> wanted,
                T* dst) {
  hdf5::Dims offset(field.shape.size()), count = field.shape;
  const std::size_t row = field.row_dimension();
  const std::int64_t extent = count.empty() ? 1 : count[row];
  const Rows rows = wanted.value_or(Rows{0, extent}), inside = rows.common({0, extent});
  const auto row_elements = std::accumulate(count.begin(), count.end(), std::int64_t{1}, std::multiplies<>()) / extent;
  if (inside.size() != rows.size()) std::fill_n(dst, rows.size() * row_elements, T{});
  if (inside.empty()) return;
  if (!count.empty()) {
    offset[row] = inside.begin;
    count[row] = inside.size();
  }
  const std::int64_t n = inside.size() * row_elements;
  if (source.sample_dimension) {
    const auto at = static_cast<std::ptrdiff_t>(*source.sample_dimension);
    offset.insert(offset.begin() + at, sample);
    count.insert(count.begin() + at, 1);
  }
  T* const to = dst + (inside.begin - rows.begin) * row_elements;
  if (!field.is_channels_first) {
    read_checked(source, field, offset, count, n, to);
    return standardise_field(field, n, to);
  }
  thread_local std::vector<T> stored;  // large: allocated once
  stored.resize(static_cast<std::size_t>(n));
  read_checked(source, field, offset, count, n, stored.data());
  const std::int64_t channels = field.shape[0], points = n / channels;
  for (std::int64_t p = 0; p < points; ++p)
    for (std::int64_t c = 0; c < channels; ++c) to[p * channels + c] = stored[static_cast<std::size_t>(c * points + p)];
  standardise_field(field, n, to);
}

}  // namespace

bool has_whole_numbers(const std::string& path, const std::string& y) {
  const bool is_file = y.ends_with(".npy");
  const auto files = find_files(is_file ? (std::filesystem::path(path) / y).string() : path, array_forms());
  const auto file = ArrayFile::open(files.front());
  const auto type = file->info(is_file ? file->names().front() : y).type;
  return type != hdf5::Type::f16 && type != hdf5::Type::f32 && type != hdf5::Type::f64;
}

struct ArrayFileDataset::Impl {
  Impl(std::string path_, ArrayFileOptions options_, Communicator* communicator);

  std::string path;
  ArrayFileOptions options;
  std::vector<std::shared_ptr<const FileList>> lists;  ///< of each field; the fields may share a list
  std::vector<ArrayField> arrays;
  std::vector<Field> fields;
  std::optional<FileSamples> samples;
  std::optional<ReadCost> cost;
  mutable RecentFiles<ArraySources> recent;

  bool has_y() const { return !options.y.empty(); }
  bool is_y(std::size_t field) const { return has_y() && field + 1 == arrays.size(); }
  void list_files(Communicator* communicator);
  std::shared_ptr<const FileList> list_of(const std::string& folder, const std::string& array,
                                          Communicator* communicator) const;
  void require_as_many(const FileList& list, const std::string& field, const std::string& array) const;
  ArraySource find_source(std::size_t field, std::shared_ptr<const ArrayFile> file) const;
  ArraySources open(std::int64_t file) const;
  std::size_t sample_dimension_of(const ArrayFile& file, const ArrayInfo& array) const;
  void make_fields(const ArraySources& first);
  std::int64_t checked_samples(const ArraySources& sources) const;
  void find_moments(Communicator* communicator);
  void read(std::int64_t index, std::span<const std::optional<Rows>> rows, std::span<void* const> dst) const;
};

ArrayFileDataset::Impl::Impl(std::string path_, ArrayFileOptions options_, Communicator* communicator)
    : path(std::move(path_)), options(std::move(options_)) {
  if (options.x.empty()) refuse("no array was named for x. Expected the name of an array, or of .npy files");
  if (!options.y.empty() && options.y_path.empty() && is_npy_name(options.x) != is_npy_name(options.y))
    refuse(
        "x is '{}' and y is '{}'. Expected arrays in the same files, or two .npy files (or patterns of them); or name "
        "the files of y (y_path)",
        options.x, options.y);
  if (options.y.empty() && !options.y_path.empty())
    refuse("the files of y are '{}', but no array was named for y. Expected its name", options.y_path);
  if (!options.inputs.empty() && (options.standardise || !options.means.empty()))
    refuse("{}: x can be standardised only if it is the network's only input, and there are {} more", path,
           options.inputs.size());
  arrays.push_back({.array = options.x, .is_replaced = true, .missing = options.missing});
  for (const InputArray& input : options.inputs) {
    if (input.field == "x" || input.field == "y" || is_npy_name(input.array) != is_npy_name(options.x))
      refuse("the input '{}' is '{}', and x is '{}'. Expected another name than x and y, and arrays of the same kind",
             input.field, input.array, options.x);
    arrays.push_back({.array = input.array, .is_replaced = true, .missing = options.missing});
  }
  if (has_y()) arrays.push_back({.array = options.y});
  list_files(communicator);
  on_each_rank(communicator, [&] { make_fields(open(0)); });
  samples.emplace(lists[0]->size(), communicator, [&](std::int64_t file) { return checked_samples(open(file)); });
  if (samples->size() == 0) refuse("{}: holds no samples: '{}' is empty. Expected at least one", path, options.x);
  find_moments(communicator);
}

/// The files that hold an array.
std::shared_ptr<const FileList> ArrayFileDataset::Impl::list_of(const std::string& folder, const std::string& array,
                                                                Communicator* communicator) const {
  const auto forms = is_npy_name(array) ? std::vector{numpy_form()} : array_forms();
  const auto files = is_npy_name(array) ? (std::filesystem::path(folder) / array).string() : folder;
  return std::make_shared<const FileList>(files, communicator,
                                          [&](const std::string& p) { return find_files(p, forms); });
}

void ArrayFileDataset::Impl::list_files(Communicator* communicator) {
  lists.push_back(list_of(path, options.x, communicator));
  for (const InputArray& input : options.inputs) {
    lists.push_back(is_npy_name(input.array) ? list_of(path, input.array, communicator) : lists[0]);
    require_as_many(*lists.back(), input.field, input.array);
  }
  if (!has_y()) return;
  const bool same_files = options.y_path.empty() && !is_npy_name(options.y);
  lists.push_back(same_files ? lists[0]
                             : list_of(options.y_path.empty() ? path : options.y_path, options.y, communicator));
  if (options.y_path.empty()) require_as_many(*lists.back(), "y", options.y);
  if (lists.back()->size() != lists[0]->size())
    refuse("{}: has {} of x, and {} has {} of y. Expected a file of y for each file of x", path,
           counted(lists[0]->size(), "file"), options.y_path, lists.back()->size());
}

/// Refuses patterns that match other numbers of files.
void ArrayFileDataset::Impl::require_as_many(const FileList& list, const std::string& field,
                                             const std::string& array) const {
  if (list.size() != lists[0]->size())
    refuse("{}: {} of x and {} of {} match '{}' and '{}'. Expected a file of {} for each file of x", path,
           counted(lists[0]->size(), "file"), list.size(), field, options.x, array, field);
}

std::size_t ArrayFileDataset::Impl::sample_dimension_of(const ArrayFile& file, const ArrayInfo& array) const {
  if (array.shape.empty())
    refuse("{}: '{}' is a single number. Expected a dimension that counts samples; if each file is one sample, say so",
           file.path(), array.name);
  if (options.sample_dimension.empty()) return 0;
  const auto names = file.dimensions(array.name);
  const auto found = std::ranges::find(names, options.sample_dimension);
  if (found == names.end())
    refuse("{}: '{}' has no dimension '{}'. Its dimensions {}", file.path(), array.name, options.sample_dimension,
           names.empty() ? "have no names: only those of NetCDF files have"
                         : fmt::format("are {}", fmt::join(names, ", ")));
  return static_cast<std::size_t>(found - names.begin());
}

ArraySource ArrayFileDataset::Impl::find_source(std::size_t field, std::shared_ptr<const ArrayFile> file) const {
  const auto& wanted = arrays[field].array;
  if (!is_npy_name(wanted) && !file->has(wanted) && file->form() == "NumPy (.npy)")
    refuse(
        "{}: is a single array. Expected files that hold '{}'; to read x and y from .npy files, name the folder, and "
        "x and y by their files: '{}.npy'",
        file->path(), wanted, wanted);
  ArraySource source{file, file->info(is_npy_name(wanted) ? file->names().front() : wanted), {}};
  if (!source.array.is_numeric())
    refuse("{}: '{}' holds {}. Expected numbers", file->path(), source.array.name, source.array.type_name);
  if (!options.one_per_file) source.sample_dimension = sample_dimension_of(*file, source.array);
  return source;
}

ArraySources ArrayFileDataset::Impl::open(std::int64_t file) const {
  ArraySources sources;
  for (std::size_t f = 0; f < arrays.size(); ++f) {
    const bool same = f > 0 && lists[f] == lists[0];
    sources.push_back(find_source(
        f, same ? sources[0].file : std::shared_ptr(ArrayFile::open(lists[f]->path(file), lists[f]->folder()))));
  }
  return sources;
}

void ArrayFileDataset::Impl::make_fields(const ArraySources& first) {
  const ArraySource& x = first[0];
  if (x.array.dataset && !x.array.shape.empty()) {
    hdf5::Dims sample = x.array.shape;
    if (x.sample_dimension) sample[*x.sample_dimension] = 1;
    cost = cost_of_samples(path, *x.array.dataset, sample);
  }
  for (std::size_t f = 0; f < arrays.size(); ++f) {
    ArrayField& a = arrays[f];
    a.shape = first[f].shape_of_sample();
    const bool is_classes = is_y(f) && options.classes;
    const std::size_t rank = a.shape.size();
    // Classes have no channels: the dimensions of the field are those of the array.
    a.is_channels_first = rank >= 3 && (is_classes || options.layout == ArrayLayout::channels_first);
    hdf5::Dims logical = a.shape;
    if (!is_classes && options.layout == ArrayLayout::none && rank >= 2)
      logical.insert(logical.begin(), 1);
    else if (!is_classes && options.layout == ArrayLayout::channels_last && rank >= 3)
      std::rotate(logical.begin(), logical.end() - 1, logical.end());
    if (std::ranges::find(logical, 0) != logical.end() || std::ssize(logical) > max_rank - 1)
      refuse("{}: a sample of '{}' has the shape {}. Expected at most {} dimensions, none of them empty",
             first[f].file->path(), first[f].array.name, hdf5::to_string(a.shape), max_rank - 1);
    Shape shape;
    for (const auto extent : logical) shape.push_back(extent);
    const std::string name = f == 0 ? "x" : is_y(f) ? "y" : options.inputs[f - 1].field;
    fields.push_back({name, shape, is_classes ? DType::s32 : DType::f32});
  }
}

/// The number of samples in a file that fits the first one.
std::int64_t ArrayFileDataset::Impl::checked_samples(const ArraySources& sources) const {
  for (std::size_t f = 0; f < arrays.size(); ++f) {
    const auto& s = sources[f];
    if (s.shape_of_sample() != arrays[f].shape)
      refuse(
          "{}: the samples of '{}' have the shape {}. Expected {}, as in {}; move the file, or name a folder or "
          "pattern "
          "of equal files",
          s.file->path(), s.array.name, hdf5::to_string(s.shape_of_sample()), hdf5::to_string(arrays[f].shape),
          lists[f]->path(0));
    if (s.samples() != sources[0].samples())
      refuse("{}: '{}' has {}, and '{}' has {}. Expected the same number in both", s.file->path(),
             sources[0].array.name, counted(sources[0].samples(), "sample"), s.array.name, s.samples());
  }
  return sources[0].samples();
}

/// Finds or takes mean and standard deviation of the channels of x.
void ArrayFileDataset::Impl::find_moments(Communicator* communicator) {
  const bool are_given = !options.means.empty() || !options.deviations.empty();
  if (!options.standardise && !are_given) return;
  const Shape& shape = fields[0].shape;
  const std::int64_t channels = shape.rank() >= 3 || shape.rank() == 1 ? shape[0] : 1;
  if (!are_given) {
    arrays[0].moments = detail::measure_moments(
        samples->size(), shape.elements(), channels,
        [&](std::int64_t i, float* dst) {
          void* const x[] = {dst};
          read(i, {}, x);
        },
        communicator);
    return;
  }
  const auto is_finite = [](double v) { return std::isfinite(v); };
  if (std::ssize(options.means) != channels || std::ssize(options.deviations) != channels)
    refuse("{}: {} and {} were given. Expected one of each for each of {}", path,
           counted(std::ssize(options.means), "mean"), counted(std::ssize(options.deviations), "standard deviation"),
           counted(channels, "channel"));
  if (!std::ranges::all_of(options.means, is_finite) || !std::ranges::all_of(options.deviations, is_finite) ||
      std::ranges::any_of(options.deviations, [](double d) { return d <= 0; }))
    refuse("{}: the means are {} and the standard deviations {}. Expected finite numbers, and deviations above 0", path,
           fmt::join(options.means, ", "), fmt::join(options.deviations, ", "));
  arrays[0].moments = {options.means, options.deviations};
}

/// Reads as many fields as `dst` has pointers.
void ArrayFileDataset::Impl::read(std::int64_t index, std::span<const std::optional<Rows>> rows,
                                  std::span<void* const> dst) const {
  const auto [file, sample] = samples->locate(index);
  const auto sources = recent.get(file, [&, f = file] {
    auto opened = std::make_shared<const ArraySources>(open(f));
    if (checked_samples(*opened) != samples->size_of(f))
      refuse(
          "{}: has another number of samples than when the data were opened. Expected {}; leave the files alone while "
          "they are in use",
          lists[0]->path(f), samples->size_of(f));
    return opened;
  });
  try {
    for (std::size_t f = 0; f < dst.size(); ++f) {
      const auto wanted = rows.empty() ? std::nullopt : rows[f];
      if (fields[f].dtype == DType::s32)
        read_field((*sources)[f], arrays[f], sample, wanted, static_cast<std::int32_t*>(dst[f]));
      else
        read_field((*sources)[f], arrays[f], sample, wanted, static_cast<float*>(dst[f]));
    }
  } catch (...) {
    recent.close(file);  // the file may have been replaced
    throw;
  }
}

ArrayFileDataset::ArrayFileDataset(const std::string& path, const ArrayFileOptions& options, Communicator* communicator)
    : impl_(std::make_unique<Impl>(path, options, communicator)) {}

ArrayFileDataset::ArrayFileDataset(const std::string& path, const ArrayFileDataset& like, const std::string& y_path,
                                   Communicator* communicator) {
  ArrayFileOptions options = like.impl_->options;
  if (options.y_path.empty() != y_path.empty())
    refuse("{}: the files of y {}, but those of {} {}. Expected y in the same kind of place", path,
           y_path.empty() ? "were not named" : "were named", like.impl_->path,
           y_path.empty() ? "were" : "were not: they hold x, too");
  options.y_path = y_path;
  options.means = like.means();
  options.deviations = like.deviations();
  impl_ = std::make_unique<Impl>(path, std::move(options), communicator);
}

ArrayFileDataset::~ArrayFileDataset() = default;

std::int64_t ArrayFileDataset::size() const { return impl_->samples->size(); }
const std::vector<Field>& ArrayFileDataset::fields() const { return impl_->fields; }

void ArrayFileDataset::read(std::int64_t index, void* const* dst) const {
  impl_->read(index, {}, {dst, impl_->fields.size()});
}

void ArrayFileDataset::read_sample(const SampleRequest& request, void* const* dst) const {
  if (request.transform) return Dataset::read_sample(request, dst);
  impl_->read(request.id.index, request.rows, {dst, impl_->fields.size()});
}

std::string ArrayFileDataset::file_of(std::int64_t index) const {
  return impl_->lists[0]->path(impl_->samples->locate(index).file);
}
std::int64_t ArrayFileDataset::row_of(std::int64_t index) const { return impl_->samples->locate(index).sample; }

std::string ArrayFileDataset::describe() const {
  const auto& d = *impl_;
  std::string inputs, targets;
  for (std::size_t f = 0; f <= d.options.inputs.size(); ++f)
    inputs += (f == 0 ? "" : " + ") + to_string(d.fields[f].shape);
  const Field& last = d.fields.back();
  if (d.has_y())
    targets = d.options.classes
                  ? fmt::format(" with classes{}", last.shape.rank() > 0 ? " of " + to_string(last.shape) : "")
                  : fmt::format(" with targets of {}", to_string(last.shape));
  return fmt::format("{} of {}{} in {} under {}", counted(size(), "sample"), inputs, targets,
                     counted(d.lists[0]->size(), "file"), d.path);
}

const std::vector<double>& ArrayFileDataset::means() const { return impl_->arrays[0].moments.means; }
const std::vector<double>& ArrayFileDataset::deviations() const { return impl_->arrays[0].moments.deviations; }

std::optional<ReadCost> ArrayFileDataset::read_cost() const { return impl_->cost; }

std::uint64_t ArrayFileDataset::digest() const {
  const auto& o = impl_->options;
  Digest digest;
  digest.add(Dataset::digest()).add(impl_->samples->digest());
  for (const auto& list : impl_->lists) digest.add(list->digest());
  for (const InputArray& input : o.inputs) digest.add(input.field).add(input.array);
  digest.add(o.x).add(o.y).add(o.sample_dimension).add(o.layout).add(o.missing.has_value()).add(o.missing.value_or(0));
  for (const auto& numbers : {means(), deviations()})
    for (const double number : numbers) digest.add(number);
  return digest.value();
}

}  // namespace keelson
