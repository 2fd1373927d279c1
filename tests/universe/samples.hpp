#pragma once

#include <string>
#include <vector>

#include "apps/cosmoflow/data/universe_dataset.hpp"
#include "engine/data/hdf5/hdf5.hpp"

/// Files of one universe, and what a data set makes of them.
namespace keelson::cosmoflow {

struct Sample {
  std::vector<float> x, y;
  friend bool operator==(const Sample&, const Sample&) = default;
};

inline Sample read(const UniverseDataset& data, std::int64_t index, int symmetry = 0) {
  Sample s;
  s.x.assign(static_cast<std::size_t>(data.fields()[0].shape.elements()), -99.0f);
  s.y.assign(static_cast<std::size_t>(data.fields()[1].shape.elements()), -99.0f);
  void* const dst[] = {s.x.data(), s.y.data()};
  data.read_turned(index, symmetry, dst);
  return s;
}

template <class T>
void write_sample(const std::string& path, const hdf5::Dims& shape, const std::vector<T>& x,
                  const std::vector<float>& y) {
  auto file = hdf5::File::create(path);
  file.write("x", x.data(), shape);
  file.write("y", y.data(), {static_cast<std::int64_t>(y.size())});
  file.close();
}

inline UniverseOptions as_stored() {
  UniverseOptions o;
  o.normalisation = Normalisation::none;
  return o;
}

}  // namespace keelson::cosmoflow
