#include "tests/support/networks.hpp"

#include <cmath>

#include "tests/support/tensors.hpp"

namespace keelson::testing {

void set_input(Context& context, const Executor& executor, const std::string& name, const Array& logical) {
  const Tensor t = executor.input(name);
  KEELSON_EXPECT(t.elements() == logical.elements());
  if (t.dtype() == DType::s32) {
    std::vector<std::int32_t> classes(logical.data.begin(), logical.data.end());
    context.device().copy_from_host(t.raw(), classes.data(), t.bytes());
    return;
  }
  const std::vector<float> values(logical.data.begin(), logical.data.end());
  context.write_plain(t, values.data());
}

Array get_output(Context& context, const Executor& executor, const std::string& name) {
  return get(context, executor.output(name));
}

std::map<std::string, Array> plain_parameters(const Parameters& parameters) {
  std::map<std::string, Array> all;
  for (const Parameter& p : parameters.all()) {
    const auto values = parameters.get(p);
    all[p.name] = Array(p.shape, std::vector<double>(values.begin(), values.end()));
  }
  return all;
}

double relative_error(const Array& got, const Array& want) {
  KEELSON_EXPECT(got.elements() == want.elements());
  double error = 0, norm = 0;
  for (std::int64_t i = 0; i < want.elements(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
}

}  // namespace keelson::testing
